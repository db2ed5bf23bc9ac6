//! Sealed texts that none of the configured keys opens, found in the database.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use service::sealed::{SealedColumn, SealingKeys, Unopened};

const SECRETS: SealedColumn =
    SealedColumn { table: "public.demo_secrets", column: "secret", needed: "NOT deleted" };

/// Keys of these bytes, repeated.
fn keys(bytes: &[u8]) -> SealingKeys {
    let list: Vec<String> = bytes.iter().map(|byte| STANDARD.encode([*byte; 32])).collect();
    SealingKeys::parse(&list.join(",")).expect("keys")
}

/// The id of the key of this byte.
fn id(byte: u8) -> String {
    let sealed = keys(&[byte]).seal(b"secret", &[]).expect("sealed");
    sealed.split('.').nth(1).expect("an id").to_owned()
}

#[tokio::test]
async fn rows_of_a_key_that_is_not_configured_are_counted_by_key() {
    let database = testkit::database().await;
    let pool = database.owner_pool();
    sqlx::raw_sql("CREATE TABLE public.demo_secrets(secret bytea, deleted boolean NOT NULL)")
        .execute(&pool)
        .await
        .expect("a table");
    for (key, deleted) in [(1, false), (2, false), (2, false), (3, false), (3, true), (4, true)] {
        let sealed = keys(&[key]).seal(b"secret", &["row"]).expect("sealed").into_bytes();
        let insert =
            sqlx::query("INSERT INTO public.demo_secrets VALUES ($1, $2)").bind(sealed).bind(deleted);
        insert.execute(&pool).await.expect("a row");
    }
    let other = "INSERT INTO public.demo_secrets VALUES ('plain', false), ('\\xff00', false), (NULL, false)";
    sqlx::raw_sql(other).execute(&pool).await.expect("rows that are not sealed");
    let column = "public.demo_secrets.secret";
    let missing = |byte: u8, rows: i64| Unopened { column: column.to_owned(), key_id: id(byte), rows };
    let mut expected = vec![missing(2, 2), missing(3, 1)];
    expected.sort_by(|one, other| one.key_id.cmp(&other.key_id));
    let mut found = keys(&[1]).unopened(&pool, &SECRETS).await.expect("an answer");
    found.sort_by(|one, other| one.key_id.cmp(&other.key_id));
    assert_eq!(found, expected);
    let told = missing(2, 2).to_string();
    assert_eq!(told, format!("{column}: no sealing key opens 2 rows, which key {} sealed", id(2)));
    assert_eq!(keys(&[9, 3, 2, 1]).unopened(&pool, &SECRETS).await.expect("an answer"), [], "control");
}
