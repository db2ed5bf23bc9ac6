//! Routes for operators: company administrators, and the activity of companies and units.

use serde_json::{Value, json};
use testkit::Reply;

use crate::support::{Org, fields};

async fn set_admin(org: &Org, company: &str, subject: &str, is_admin: bool) -> Reply {
    let path = format!("/internal/org/companies/{company}/admins/{subject}");
    org.operate(&path, json!({ "isAdmin": is_admin, "operator": "root" })).await
}

async fn set_active(org: &Org, unit: &str, is_active: bool) -> Reply {
    let path = format!("/internal/org/units/{unit}/activity");
    org.operate(&path, json!({ "isActive": is_active, "operator": "root" })).await
}

#[tokio::test]
async fn the_role_is_given_and_taken_once_and_each_change_is_audited() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let admin = |is: bool, changed: bool| json!({ "companyId": company, "kcSub": "alice", "isAdmin": is, "changed": changed });
    assert_eq!(set_admin(&org, &company, "alice", true).await.data(), &admin(true, true));
    assert_eq!(org.tuples("operator").await, [format!("company:{company}#admin@user:alice")]);
    assert_eq!(set_admin(&org, &company, "alice", true).await.data(), &admin(true, false));
    // Linking and unlinking rewrite the subject's derived tuples but keep the role.
    let member = org.member(&company, "A1").await;
    org.link(&member, "alice").await;
    org.delete(&format!("/internal/org/admin/members/{member}/link-user")).await;
    assert_eq!(org.tuples("operator").await.len(), 1);
    assert_eq!(set_admin(&org, &company, "alice", false).await.data(), &admin(false, true));
    assert_eq!(set_admin(&org, &company, "alice", false).await.data(), &admin(false, false));
    assert!(org.tuples("operator").await.is_empty());
    let audit = org.audit().await;
    let of_operators: Vec<&String> = audit.iter().filter(|row| row.starts_with("operator:root ")).collect();
    assert_eq!(
        of_operators,
        [
            &format!("operator:root company.admin_added company:{company}"),
            &format!("operator:root company.admin_removed company:{company}")
        ]
    );
}

#[tokio::test]
async fn only_a_known_subject_of_a_company_gets_the_role_and_anybody_can_lose_it() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let nowhere = uuid::Uuid::now_v7().to_string();
    assert_eq!(set_admin(&org, &company, "stranger", true).await.code(), "NOT_FOUND");
    assert_eq!(set_admin(&org, &nowhere, "alice", true).await.code(), "NOT_FOUND");
    assert_eq!(set_admin(&org, "x", "alice", true).await.code(), "BAD_REQUEST");
    assert_eq!(set_admin(&org, &company, "stranger", false).await.status, 200);
    let unit = json!({ "typeKey": "department", "parentId": company, "code": "D", "name": "D" });
    let unit = crate::support::made(&org.post("/internal/org/admin/units", unit).await);
    assert_eq!(set_admin(&org, &unit, "alice", true).await.code(), "NOT_FOUND", "not a company");
    org.identity.answer("GET", "/internal/identity/users/*", 500, json!({}));
    assert_eq!(set_admin(&org, &company, "alice", true).await.status, 503);
    assert!(org.tuples("operator").await.is_empty());
}

#[tokio::test]
async fn bodies_are_checked() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    for (path, flag) in [
        (format!("/internal/org/companies/{company}/admins/alice"), "isAdmin"),
        (format!("/internal/org/units/{company}/activity"), "isActive"),
    ] {
        let send = async |body: Value| fields(&org.operate(&path, body).await);
        assert_eq!(send(json!({})).await, [format!("{flag} required"), "operator required".to_owned()]);
        let past = json!({ flag: "yes", "operator": "o".repeat(201) });
        assert_eq!(send(past).await, [format!("{flag} type"), "operator length".to_owned()]);
        let longest = json!({ flag: true, "operator": "o".repeat(200) });
        assert_eq!(org.operate(&path, longest).await.status, 200);
    }
}

#[tokio::test]
async fn a_company_is_turned_off_and_on_and_gets_what_was_enabled_meanwhile() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "A1").await;
    org.link(&member, "alice").await;
    org.account("alice").await;
    assert_eq!(org.mine("alice").await.data()[0]["code"], "ACME");
    assert_eq!(set_active(&org, &company, false).await.data()["isActive"], false);
    assert_eq!(org.mine("alice").await.data(), &json!([]));
    assert_eq!(set_active(&org, &company, false).await.data()["isActive"], false);
    crate::company_creation::module(&org.owner, "timesheet", 8160, true, true).await;
    assert!(org.tuples("default").await.is_empty());
    assert_eq!(set_active(&org, &company, true).await.data()["isActive"], true);
    assert_eq!(org.mine("alice").await.data()[0]["code"], "ACME");
    assert_eq!(org.tuples("default").await, crate::company_creation::defaults(&company, "timesheet"));
    // A tuple that an operator removed does not come back.
    sqlx::query("DELETE FROM authz.tuple WHERE relation = 'system'")
        .execute(&org.owner)
        .await
        .expect("removed");
    set_active(&org, &company, false).await;
    set_active(&org, &company, true).await;
    assert_eq!(org.tuples("default").await, crate::company_creation::defaults(&company, "timesheet")[..1]);
    let nowhere = uuid::Uuid::now_v7().to_string();
    assert_eq!(set_active(&org, &nowhere, false).await.code(), "NOT_FOUND");
    let changes = org.audit().await.iter().filter(|row| row.starts_with("operator:root unit.")).count();
    assert_eq!(changes, 4);
}
