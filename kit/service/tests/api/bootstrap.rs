//! The server's log after roles were created, successfully or not.

use service::migrate::{Login, MigrateError, bootstrap};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::own_server::OwnServer;

const PASSWORDS: [(&str, &str); 3] = [
    ("org", "plain-and-long-enough"),
    ("authz", "it's $1 {key} $bootstrap$ \\"),
    ("registry", "pässwörd-ﬁ-①"),
];

fn logins() -> Vec<Login> {
    PASSWORDS.map(|(key, password)| Login { key: key.to_owned(), password: password.to_owned() }).to_vec()
}

#[track_caller]
fn holds_no_password(log: &str) {
    for (_, password) in PASSWORDS {
        for spelled in [password.to_owned(), password.replace('\'', "''"), "pässwörd".to_owned()] {
            assert!(!log.contains(&spelled), "a log holds the password {spelled}");
        }
    }
}

#[tokio::test]
async fn no_password_is_logged_when_roles_are_made_nor_when_making_them_fails() {
    let server =
        OwnServer::start(&[], &[("log_statement", "all"), ("log_min_duration_statement", "0")]).await;
    let superuser = server.superuser("127.0.0.1");
    let mut connection = superuser.connect().await.expect("the superuser");
    // A login that may connect but not create roles makes a bootstrap fail half-way.
    for statement in ["CREATE ROLE meek LOGIN PASSWORD 'of-no-interest'", "CREATE DATABASE platform"] {
        sqlx::raw_sql(statement).execute(&mut connection).await.expect("the superuser may");
    }
    let meek = superuser.clone().username("meek").password("of-no-interest").database("platform");
    let failed = bootstrap(&meek, &logins()).await;
    assert!(matches!(failed, Err(MigrateError::Bootstrap(_))), "{failed:?}");
    let log = server.log();
    assert!(log.contains("permission denied to create role"), "it failed elsewhere: {log}");
    assert!(log.contains("CREATE ROLE platform_org LOGIN PASSWORD '"), "the statement was logged: {log}");
    holds_no_password(&log);
    holds_no_password(&format!("{failed:?}"));

    bootstrap(&superuser.clone().database("platform"), &logins()).await.expect("the superuser may");
    holds_no_password(&server.log());
    let stored = "SELECT count(*) FROM pg_authid WHERE rolname LIKE 'platform\\_%' AND rolpassword LIKE 'SCRAM-SHA-256$4096:%'";
    let count: i64 =
        sqlx::query_scalar(AssertSqlSafe(stored)).fetch_one(&mut connection).await.expect("a count");
    assert_eq!(count, 3);
    for (key, password) in PASSWORDS {
        let role = superuser.clone().username(&format!("platform_{key}")).database("platform");
        let own = role.clone().password(password).connect().await.expect("each logs in with its own");
        own.close().await.expect("a clean end");
        assert!(role.password("another").connect().await.is_err(), "{key}");
    }
    holds_no_password(&server.log());
}
