//! Who may write which tuples: each role on its own connection, with exactly the rights of the service.

use std::borrow::Cow;

use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, PgPool};
use testkit::TestDatabase;

use crate::app::Tuple;

const COMPANY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// `Ok(rows)`, or the SQLSTATE of the refusal.
async fn run(pool: &PgPool, sql: String) -> Result<u64, String> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await;
    done.map(|done| done.rows_affected()).map_err(|error| {
        error
            .as_database_error()
            .and_then(DatabaseError::code)
            .map_or_else(|| error.to_string(), Cow::into_owned)
    })
}

fn insert(tuple: &str, source: &str) -> String {
    let tuple = tuple.replace("{c}", COMPANY);
    let columns = Tuple::parse(&tuple).0.join("', '");
    format!("INSERT INTO authz.tuple VALUES ('{columns}', '{source}') ON CONFLICT DO NOTHING")
}

fn remove(tuple: &str) -> String {
    let tuple = tuple.replace("{c}", COMPANY);
    let columns = Tuple::parse(&tuple).0.join("', '");
    format!(
        "DELETE FROM authz.tuple WHERE (object_type, object_id, relation, subject_type, subject_id, subject_relation)
         = ('{columns}')"
    )
}

const DERIVED: [&str; 3] = ["company:{c}#member@user:u", "position:p#holder@user:u", "group:g#member@user:u"];
const DEFAULTS: [&str; 2] =
    ["company_module:{c}/crm#company@company:{c}", "company_module:{c}/crm#system@system:platform"];
/// Tuples that neither org nor registry may write, with the source that they would have to claim.
const FORBIDDEN: [(&str, &str); 12] = [
    ("system:platform#superadmin@user:u", "org"),
    ("system:platform#superadmin@user:u", "role"),
    ("company:{c}#admin@user:u", "org"),
    ("company:{c}#member@group:g#member", "org"),
    ("company:{c}#member@user:u", "grant"),
    ("company_module:{c}/crm#admin@user:u", "default"),
    ("company_module:{c}/crm#company@company:11111111-1111-4111-8111-111111111111", "default"),
    ("company_module:{c}/crm#system@system:other", "default"),
    ("company_module:{c}/crm#system@system:platform", "grant"),
    ("crm_deal:1#viewer@user:u", "org"),
    ("crm_deal:1#company_module@company_module:{c}/crm", "default"),
    ("group:g#member@group:h#member", "org"),
];
const DENIED: &str = "42501";

async fn database() -> TestDatabase {
    testkit::database().await
}

#[tokio::test]
async fn org_writes_what_it_derives_and_adds_defaults() {
    let database = database().await;
    let org = database.pool_as("org");
    for tuple in DERIVED {
        assert_eq!(run(&org, insert(tuple, "org")).await, Ok(1), "{tuple}");
        assert_eq!(run(&org, insert(tuple, "org")).await, Ok(0), "{tuple} again");
        assert_eq!(run(&org, remove(tuple)).await, Ok(1), "{tuple} removed");
    }
    for tuple in DEFAULTS {
        assert_eq!(run(&org, insert(tuple, "default")).await, Ok(1), "{tuple}");
        assert_eq!(run(&org, insert(tuple, "default")).await, Ok(0), "{tuple} again");
        assert_eq!(run(&org, remove(tuple)).await, Ok(0), "org may not remove {tuple}");
    }
    for (tuple, source) in FORBIDDEN {
        assert_eq!(run(&org, insert(tuple, source)).await, Err(DENIED.to_owned()), "{tuple} as {source}");
    }
}

#[tokio::test]
async fn registry_only_adds_defaults() {
    let database = database().await;
    let registry = database.pool_as("registry");
    for tuple in DEFAULTS {
        assert_eq!(run(&registry, insert(tuple, "default")).await, Ok(1), "{tuple}");
        assert_eq!(run(&registry, insert(tuple, "default")).await, Ok(0), "{tuple} again");
        assert_eq!(run(&registry, remove(tuple)).await, Err(DENIED.to_owned()), "{tuple} removed");
    }
    for tuple in DERIVED {
        assert_eq!(run(&registry, insert(tuple, "org")).await, Err(DENIED.to_owned()), "{tuple}");
    }
    for (tuple, source) in FORBIDDEN {
        assert_eq!(
            run(&registry, insert(tuple, source)).await,
            Err(DENIED.to_owned()),
            "{tuple} as {source}"
        );
    }
}

/// A default restored by an operator has another source; writing it again is no error.
#[tokio::test]
async fn a_tuple_of_somebody_else_is_a_conflict_that_is_passed_over() {
    let database = database().await;
    let authz = database.pool_as("authz");
    assert_eq!(run(&authz, insert(DEFAULTS[1], "operator")).await, Ok(1));
    for role in ["org", "registry"] {
        assert_eq!(run(&database.pool_as(role), insert(DEFAULTS[1], "default")).await, Ok(0), "{role}");
    }
}

#[tokio::test]
async fn each_sees_only_what_it_may_write() {
    let database = database().await;
    let authz = database.pool_as("authz");
    for (tuple, source) in
        [(DERIVED[0], "org"), (DEFAULTS[0], "default"), ("crm_deal:1#viewer@user:u", "grant")]
    {
        assert_eq!(run(&authz, insert(tuple, source)).await, Ok(1), "{tuple}");
    }
    for (role, count) in [("authz", 3), ("org", 2), ("registry", 1)] {
        let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM authz.tuple")
            .fetch_one(&database.pool_as(role))
            .await
            .expect("it may look");
        assert_eq!(seen, count, "{role}");
    }
}

#[tokio::test]
async fn nobody_changes_a_tuple_in_place_and_nobody_else_touches_one() {
    let database = database().await;
    let owner = database.owner_pool();
    run(&owner, insert(DERIVED[0], "org")).await.expect("the superuser may");
    for role in
        ["authz", "org", "registry", "identity", "idp", "timesheet", "notification", "helpdesk", "docs"]
    {
        let pool = database.pool_as(role);
        let update = "UPDATE authz.tuple SET subject_id = 'mallory'".to_owned();
        assert_eq!(run(&pool, update).await, Err(DENIED.to_owned()), "{role} updates");
        let truncate = "TRUNCATE authz.tuple".to_owned();
        assert_eq!(run(&pool, truncate).await, Err(DENIED.to_owned()), "{role} truncates");
    }
    for role in ["identity", "idp", "timesheet", "notification", "helpdesk", "docs"] {
        let pool = database.pool_as(role);
        for sql in [insert(DERIVED[0], "org"), remove(DERIVED[0]), "SELECT 1 FROM authz.tuple".to_owned()] {
            assert_eq!(run(&pool, sql.clone()).await, Err(DENIED.to_owned()), "{role}: {sql}");
        }
    }
}

#[tokio::test]
async fn the_guard_ledger_and_log_are_not_for_others() {
    let database = database().await;
    for role in ["org", "registry", "identity", "timesheet"] {
        let pool = database.pool_as(role);
        for sql in [
            "SELECT 1 FROM authz.role_ledger",
            "SELECT 1 FROM authz.superadmin_guard",
            "SELECT 1 FROM feed.change",
            "INSERT INTO feed.change(kind, op, row) VALUES ('tuple', 'I', '{}')",
            "SELECT feed.log()",
            "SELECT feed.keep_own(false)",
            "SELECT feed.own_epoch()",
            "SELECT feed.trim(gen_random_uuid(), '0', 1)",
        ] {
            assert_eq!(run(&pool, sql.to_owned()).await, Err(DENIED.to_owned()), "{role}: {sql}");
        }
    }
    for role in ["org", "registry", "timesheet"] {
        let guard = run(&database.pool_as(role), "SELECT authz.superadmin_guard()".to_owned()).await;
        assert_eq!(guard, Err(DENIED.to_owned()), "{role}");
    }
    let authz = database.pool_as("authz");
    for sql in [
        "UPDATE authz.role_ledger SET actor = 'mallory'",
        "DELETE FROM authz.role_ledger",
        "INSERT INTO feed.change(kind, op, row) VALUES ('tuple', 'I', '{}')",
        "UPDATE feed.change SET row = '{}'",
        "DELETE FROM feed.change",
        "SELECT feed.begin_anew()",
        "SELECT feed.wire()",
        "UPDATE feed.epoch SET trimmed = '1'",
        "UPDATE feed.epoch SET epoch = gen_random_uuid()",
        "DELETE FROM audit.authz__events",
        "SELECT 1 FROM identity.users",
        "SELECT 1 FROM org.units",
        "SELECT 1 FROM org.members",
        "SELECT 1 FROM registry.modules",
    ] {
        assert_eq!(run(&authz, sql.to_owned()).await, Err(DENIED.to_owned()), "{sql}");
    }
}
