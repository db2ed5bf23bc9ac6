//! The shared cluster: separate databases, least privilege, the migration runner.

use service::migrate::{self, MigrateError, MigrationSet};
use sqlx::migrate::{Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr};

fn set(key: &str, migrations: &[(i64, &'static str)]) -> MigrationSet {
    let of = |&(version, sql): &(i64, &'static str)| {
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(version, "test".into(), MigrationType::Simple, sql, false)
    };
    MigrationSet { key: key.to_owned(), migrations: migrations.iter().map(of).collect::<Vec<_>>().into() }
}

const FIRST: (i64, &str) =
    (1, "CREATE TABLE org.thing(id int PRIMARY KEY); GRANT SELECT ON org.thing TO platform_org;");

#[tokio::test]
async fn databases_are_apart_and_hold_the_audit_tables() {
    let (one, other) = tokio::join!(testkit::cluster::database(), testkit::cluster::database());
    assert_ne!(one.name(), other.name());
    let pool = one.pool_as("org");
    let insert = "INSERT INTO audit.org__events(actor, action, subject) VALUES ('a', 'b', 'c')";
    sqlx::query(insert).execute(&pool).await.expect("a service adds audit rows");
    let count = "SELECT count(*) FROM audit.org__events";
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&other.pool_as("org")).await.expect("it reads them");
    assert_eq!(rows, 0, "the other database is unaffected");
}

#[tokio::test]
async fn audit_rows_can_not_be_changed_and_other_schemas_not_be_read() {
    let pool = testkit::cluster::database().await.pool_as("org");
    for refused in [
        "UPDATE audit.org__events SET actor = 'x'",
        "DELETE FROM audit.org__events",
        "TRUNCATE audit.org__events",
        "SELECT * FROM audit.authz__events",
        "CREATE TABLE org.mine(id int)",
        "CREATE TABLE public.mine(id int)",
        "SET ROLE platform_owner",
    ] {
        let error = sqlx::query(refused).execute(&pool).await.expect_err(refused);
        let state = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        assert_eq!(state.as_deref(), Some("42501"), "{refused}: {error}");
    }
}

#[tokio::test]
async fn bootstrap_and_migrations_run_again_and_side_by_side() {
    let database = testkit::cluster::empty_database().await;
    let sets = [set("org", &[FIRST])];
    let owner = database.owner_options();
    let run = || async {
        database.bootstrap().await.expect("bootstrap");
        migrate::apply(&owner, &sets).await.expect("apply");
    };
    tokio::join!(run(), run(), run());
    let versions = "SELECT count(*) FROM org.schema_version";
    let applied: i64 =
        sqlx::query_scalar(versions).fetch_one(&database.owner_pool()).await.expect("versions");
    assert_eq!(applied, 1);
    let owner_of = "SELECT tableowner FROM pg_tables WHERE schemaname = 'org' AND tablename = 'thing'";
    let table_owner: String =
        sqlx::query_scalar(owner_of).fetch_one(&database.owner_pool()).await.expect("owner");
    assert_eq!(table_owner, "platform_owner");
}

#[tokio::test]
async fn a_changed_migration_and_a_newer_database_are_refused() {
    let database = testkit::cluster::empty_database().await;
    database.bootstrap().await.expect("bootstrap");
    let owner = database.owner_options();
    migrate::apply(&owner, &[set("org", &[FIRST, (2, "SELECT 1")])]).await.expect("apply");

    let changed = migrate::apply(&owner, &[set("org", &[FIRST, (2, "SELECT 2")])]).await;
    assert!(matches!(changed, Err(MigrateError::Changed { version: 2, .. })), "{changed:?}");
    let older = migrate::apply(&owner, &[set("org", &[FIRST])]).await;
    assert!(matches!(older, Err(MigrateError::Newer { version: 2, .. })), "{older:?}");
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_and_can_be_repaired() {
    let database = testkit::cluster::empty_database().await;
    database.bootstrap().await.expect("bootstrap");
    let owner = database.owner_options();
    let bad = (2, "CREATE TABLE org.half(id int); SELECT 1/0;");
    let failed = migrate::apply(&owner, &[set("org", &[FIRST, bad])]).await;
    assert!(matches!(failed, Err(MigrateError::Migration { .. })), "{failed:?}");
    migrate::apply(&owner, &[set("org", &[FIRST, (2, "CREATE TABLE org.half(id int)")])])
        .await
        .expect("repaired");
}
