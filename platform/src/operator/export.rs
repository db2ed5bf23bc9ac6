//! `platform identity export SUBJECT`: prints every database row that names a subject, as JSON, read in one snapshot as
//! the owner of the schemas. PostgreSQL's catalog lists the tables, so that no new one is missed. A row belongs to the
//! export if one of its columns holds the subject, the id of one of its member rows or sessions, or one of its e-mail
//! addresses. Digests and secrets are left out.

use std::collections::BTreeSet;
use std::io::Write;

use contract::Settings;
use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::authorization::{connect, owner, unreachable};
use crate::stop::Stop;

/// Where a subject's other names are: table, column of the name, and column that holds a name known already. In this
/// order, because later entries depend on names that earlier ones add.
const NAMES: [(&str, &str, &str); 7] = [
    ("org.members", "id", "user_id"),
    ("idp.sessions", "id", "user_id"),
    ("idp.browser_sessions", "id", "user_id"),
    ("timesheet.submissions", "id", "member_id"),
    ("identity.users", "email", "kc_sub"),
    ("idp.users", "email", "id"),
    ("org.members", "email", "user_id"),
];
/// Prefixes of an id in columns: none, those of audit subjects, that of an event's path.
const FORMS: [&str; 6] = ["", "user:", "member:", "session:", "browser-session:", "users/"];

/// One row per table: its name, the condition on a row `t` that names the subject (`$1`: every form of its names,
/// `$3`: a pattern that matches a name inside JSON), and the columns to leave out. The column `email` does not count,
/// because two people may have the same address.
const TABLES: &str = r"
SELECT format('%I.%I', n.nspname, c.relname) AS name,
       string_agg(CASE
         WHEN a.attname = 'email' THEN NULL
         WHEN a.atttypid IN ('text'::regtype, 'varchar'::regtype, 'uuid'::regtype)
           THEN format('lower(t.%I::text) = ANY($1)', a.attname)
         WHEN a.atttypid IN ('text[]'::regtype, 'uuid[]'::regtype)
           THEN format('t.%I::text[] && $1', a.attname)
         WHEN a.atttypid IN ('json'::regtype, 'jsonb'::regtype)
           THEN format('lower(t.%I::text) ~ $3', a.attname)
       END, ' OR ' ORDER BY a.attnum) AS condition,
       coalesce(array_agg(a.attname::text) FILTER (
         WHERE a.atttypid = 'bytea'::regtype OR a.attname IN ('password_hash', 'nonce', 'code_challenge')), '{}') AS secrets
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_'
 GROUP BY n.nspname, c.relname ORDER BY n.nspname, c.relname";

struct Table {
    name: String,
    condition: String,
    secrets: Vec<String>,
}

/// Prints the export.
pub(super) async fn run(subject: &str, settings: &Settings) -> Result<(), Stop> {
    let mut conn = connect(&owner(settings)?).await?;
    let mut tx = conn.begin().await.map_err(unreachable)?;
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *tx)
        .await
        .map_err(unreachable)?;
    let tables = tables(&mut tx).await.map_err(unreachable)?;
    let names = names(&mut tx, &tables, subject).await.map_err(unreachable)?;
    let wanted = Wanted { forms: forms(&names), pattern: pattern(&names) };
    let mut out = std::io::stdout().lock();
    let heading = format!("{{ \"subject\": {}, \"tables\": {{", Value::from(subject));
    out.write_all(heading.as_bytes()).map_err(unwritten)?;
    let mut separator = "\n";
    for table in &tables {
        if print(&mut tx, table, &wanted, separator, &mut out).await? {
            separator = ",\n";
        }
    }
    out.write_all(b"\n}}\n").map_err(unwritten)?;
    if separator == "\n" {
        return Err(Stop::Failed(format!("nothing is held about a subject {subject}")));
    }
    Ok(())
}

async fn tables(conn: &mut PgConnection) -> sqlx::Result<Vec<Table>> {
    let rows = sqlx::query(TABLES).fetch_all(conn).await?;
    let mut tables = Vec::with_capacity(rows.len());
    for row in rows {
        // A table with only numbers and times names no subject.
        let Some(condition) = row.try_get("condition")? else { continue };
        tables.push(Table { name: row.try_get("name")?, condition, secrets: row.try_get("secrets")? });
    }
    Ok(tables)
}

/// Returns the subject and its other names, in lower case. Skips tables that do not exist.
async fn names(conn: &mut PgConnection, tables: &[Table], subject: &str) -> sqlx::Result<BTreeSet<String>> {
    let mut names = BTreeSet::from([subject.to_lowercase()]);
    for (table, name, of) in NAMES {
        if !tables.iter().any(|known| known.name == table) {
            continue;
        }
        let known: Vec<String> = names.iter().cloned().collect();
        let sql = format!(
            "SELECT lower({name}::text) FROM {table} WHERE {name} IS NOT NULL AND lower({of}::text) = ANY($1)"
        );
        let found: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(sql)).bind(known).fetch_all(&mut *conn).await?;
        names.extend(found);
    }
    Ok(names)
}

/// What rows are searched for.
struct Wanted {
    forms: Vec<String>,
    pattern: String,
}

fn forms(names: &BTreeSet<String>) -> Vec<String> {
    names.iter().flat_map(|name| FORMS.iter().map(move |form| format!("{form}{name}"))).collect()
}

/// Returns a regular expression that matches a name as a whole word, as in `document:7#owner@user:ada`.
fn pattern(names: &BTreeSet<String>) -> String {
    let literal = |name: &String| -> String {
        let escaped = |letter: char| match letter {
            plain if plain.is_alphanumeric() => plain.to_string(),
            other => format!("\\{other}"),
        };
        name.chars().map(escaped).collect()
    };
    let names: Vec<String> = names.iter().map(literal).collect();
    format!("(^|[^[:alnum:]_.-])({})($|[^[:alnum:]_.-])", names.join("|"))
}

/// Prints the rows of one table, one per line; returns false if there are none.
async fn print(
    conn: &mut PgConnection,
    table: &Table,
    wanted: &Wanted,
    separator: &str,
    out: &mut impl Write,
) -> Result<bool, Stop> {
    let Table { name, condition, secrets } = table;
    // The catalog query quotes the names.
    let sql = format!(
        "SELECT (to_jsonb(t) - $2::text[])::text FROM {name} t \
          WHERE ({condition}) AND $1::text[] IS NOT NULL AND $3::text IS NOT NULL"
    );
    let asked = sqlx::query_scalar::<_, String>(AssertSqlSafe(sql)).bind(&wanted.forms).bind(secrets);
    let mut rows = asked.bind(&wanted.pattern).fetch(conn);
    let mut count = 0_u64;
    while let Some(row) = rows.try_next().await.map_err(unreachable)? {
        let before = if count == 0 {
            format!("{separator}{}: [\n  ", Value::from(name.as_str()))
        } else {
            ",\n  ".to_owned()
        };
        out.write_all(before.as_bytes()).and_then(|()| out.write_all(row.as_bytes())).map_err(unwritten)?;
        count += 1;
    }
    if count > 0 {
        out.write_all(b"\n]").map_err(unwritten)?;
    }
    Ok(count > 0)
}

#[expect(clippy::needless_pass_by_value, reason = "it is a `map_err` function")]
fn unwritten(error: std::io::Error) -> Stop {
    Stop::Failed(format!("the export could not be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_whole_word_whatever_letters_it_has() {
        let names = BTreeSet::from(["a.b".to_owned(), "f2c6".to_owned()]);
        assert_eq!(pattern(&names), r"(^|[^[:alnum:]_.-])(a\.b|f2c6)($|[^[:alnum:]_.-])");
        assert!(forms(&names).contains(&"user:f2c6".to_owned()));
    }
}
