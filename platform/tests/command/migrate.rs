//! `platform migrate` on a real server.

use crate::fixture::Platform;

#[tokio::test]
async fn an_empty_database_is_brought_up_to_date_and_stays_so() {
    let database = testkit::empty_database().await;
    database.bootstrap().await.expect("the roles of the cluster");
    let platform = Platform::new().with("PLATFORM_DATABASE_URL", database.owner_url());
    for _ in 0..2 {
        let run = platform.run(&["migrate"]);
        run.succeeded();
        assert!(run.out.contains("up to date"), "{}", run.out);
    }
    let tables =
        "SELECT count(*) FROM pg_tables WHERE tablename = 'schema_version' AND tableowner = 'platform_owner'";
    let versions: i64 = sqlx::query_scalar(tables).fetch_one(&database.owner_pool()).await.expect("tables");
    assert_eq!(versions, 9, "one version table per schema");
}

#[tokio::test]
async fn another_password_than_the_roles_is_refused() {
    let database = testkit::database().await;
    let platform = Platform::new()
        .with("PLATFORM_DATABASE_URL", database.owner_url())
        .with("PLATFORM_ORG_DB_PASSWORD", "another one");
    platform.run(&["migrate"]).refused(&["platform_org", "PLATFORM_ORG_DB_PASSWORD", "ALTER ROLE"]);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let database = testkit::database().await;
    let platform = Platform::new().with("PLATFORM_DATABASE_URL", database.owner_url());
    platform.run(&["migrate"]).succeeded();
    let newer = "INSERT INTO org.schema_version(version, description, success, checksum, execution_time) \
                 VALUES (9999, 'from the future', true, '', 0)";
    sqlx::query(newer).execute(&database.owner_pool()).await.expect("a row");
    platform.run(&["migrate"]).refused(&["migration 9999 of org", "newer version"]);
}

#[test]
fn a_missing_or_wrong_address_is_refused_and_its_password_not_repeated() {
    Platform::new().run(&["migrate"]).refused(&["PLATFORM_DATABASE_URL: is required"]);
    for wrong in
        ["mysql://owner:hunter2@h/d", "postgres://owner:hunter2@h", "postgres://owner:hunter2@127.0.0.1:1/d"]
    {
        let run = Platform::new().with("PLATFORM_DATABASE_URL", wrong).run(&["migrate"]);
        run.refused(&["database"]);
        assert!(!run.err.contains("hunter2"), "{}", run.err);
    }
}
