//! Explanations: the outcome of every step, the tree of a hit and of a miss, and who may ask about whom.

use serde_json::{Value, json};

use crate::can::with_crm;

const EXPLAIN: &str = "/internal/authz/effective-access/explain";

#[tokio::test]
async fn a_hit_and_a_miss_are_explained_by_their_trees() {
    let (app, rows, company) = with_crm(&["alice", "bob"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@group:g#member", "grant").await;
    rows.tuple("group:g#member@user:alice", "org").await;
    let path =
        format!("{EXPLAIN}?companyId={company}&moduleKey=crm&objectType=crm_deal&objectId=1&relation=viewer");
    for (subject, held) in [("alice", true), ("bob", false)] {
        let path = format!("{path}&subject={subject}");
        let told = app.ask("GET", &path, "root", None).await.data().clone();
        assert_eq!(
            (&told["decision"]["allowed"], &told["subject"]),
            (&json!(held), &json!(subject)),
            "{told}"
        );
        let outcomes: Vec<_> =
            told["steps"].as_array().expect("steps").iter().map(|step| step["outcome"].clone()).collect();
        let last = if held { "passed" } else { "denied" };
        assert_eq!(outcomes, ["passed", "passed", "passed", "skipped", "passed", "passed", last]);
        let tree = &told["tree"];
        assert_eq!((&tree["object"], &tree["held"]), (&json!("crm_deal:1"), &json!(held)));
        let group = tree["from"]
            .as_array()
            .expect("branches")
            .iter()
            .find(|branch| branch["to"]["object"] == "group:g");
        let group = group.expect("the group is looked at");
        assert_eq!(group["tuple"], "crm_deal:1#viewer@group:g#member");
        let own = if held { json!("group:g#member@user:alice") } else { Value::Null };
        assert_eq!((&group["to"]["held"], &group["to"]["tuple"]), (&json!(held), &own));
    }
    assert_eq!(app.audit().await, Vec::<Value>::new(), "an explanation is not a decision");
}

#[tokio::test]
async fn a_superadmin_asks_about_anybody_and_a_member_about_itself() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.subject("stranger").await;
    let status = async |caller: &str, query: &str| {
        let reply = app.ask("GET", &format!("{EXPLAIN}?companyId={company}{query}"), caller, None).await;
        (reply.status, reply.code().to_owned())
    };
    assert_eq!(status("alice", "").await.0, 200);
    assert_eq!(status("alice", "&subject=alice").await.0, 200);
    assert_eq!(status("root", "&subject=alice").await.0, 200);
    assert_eq!(status("root", "").await.0, 200);
    assert_eq!(status("alice", "&subject=root").await, (403, "PLATFORM_ROLE_REQUIRED".to_owned()));
    assert_eq!(status("stranger", "").await, (403, "PLATFORM_ROLE_REQUIRED".to_owned()));
    assert_eq!(status("nobody", "").await, (403, "AUTHORIZATION_DENIED".to_owned()));
    for query in [
        "&objectType=crm_deal",
        "&relation=viewer",
        "&scope=other",
        "&moduleKey=%00",
        "&allowPlatformOperatorCompanyScope=1",
    ] {
        assert_eq!(status("root", query).await.0, 400, "{query}");
    }
    let global = app.ask("GET", &format!("{EXPLAIN}?scope=global&subject=alice"), "root", None).await;
    assert_eq!(global.data()["decision"]["reason"], "PLATFORM_ROLE_REQUIRED", "{}", global.text);
}

#[tokio::test]
async fn a_misspelt_type_or_relation_is_no_denial() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.subject("stranger").await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    let ask = async |caller: &str, kind: &str, relation: &str| {
        let path = format!("{EXPLAIN}?companyId={company}&objectType={kind}&objectId=1&relation={relation}");
        app.ask("GET", &path, caller, None).await
    };
    for caller in ["alice", "root"] {
        assert_eq!(ask(caller, "crm_deal", "viewer").await.status, 200, "control");
        for (kind, relation, field, known) in [
            ("crm_dael", "viewer", "objectType", "crm_deal"),
            ("crm_deal", "veiwer", "relation", "viewer"),
            ("user", "viewer", "relation", "user's relations"),
        ] {
            let reply = ask(caller, kind, relation).await;
            assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"), "{}", reply.text);
            let wrong = &reply.body["error"]["details"]["fields"][0];
            assert_eq!((&wrong["path"], &wrong["rule"]), (&json!(field), &json!("unknown")));
            assert!(wrong["message"].as_str().is_some_and(|told| told.contains(known)), "{wrong}");
        }
    }
    assert_eq!(ask("stranger", "crm_dael", "viewer").await.status, 403, "no list of types for strangers");
}

#[tokio::test]
async fn an_object_of_another_company_shows_no_tree() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    let other = rows.company().await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{other}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@group:secret#member", "grant").await;
    let path = format!("{EXPLAIN}?companyId={company}&objectType=crm_deal&objectId=1&relation=viewer");
    let reply = app.ask("GET", &path, "alice", None).await;
    assert_eq!(
        (&reply.data()["tree"], reply.text.contains("secret")),
        (&Value::Null, false),
        "{}",
        reply.text
    );
}

/// Only managers of an object and superadmins see whom it is shared with.
#[tokio::test]
async fn a_member_sees_its_own_path_and_a_manager_the_shares_of_what_it_manages() {
    let (app, rows, company) = with_crm(&["alice", "bob", "mia"]).await;
    rows.run(
        r#"UPDATE registry.modules SET fragment = fragment ||
           '{"objects": [{"objectType": "crm_deal", "managerRelation": "owner"}]}' WHERE key = 'crm'"#,
    )
    .await;
    rows.catalog_changed().await;
    for deal in ["1", "2"] {
        let anchor = format!("crm_deal:{deal}#company_module@company_module:{company}/crm");
        rows.tuple(&anchor, "grant").await;
        rows.tuple(&format!("crm_deal:{deal}#viewer@group:secret#member"), "grant").await;
        rows.tuple(&format!("crm_deal:{deal}#viewer@user:carol"), "grant").await;
    }
    rows.tuple("group:secret#member@user:alice", "org").await;
    rows.tuple("crm_deal:1#owner@user:mia", "grant").await;
    let ask = async |subject: &str, query: &str| {
        let path = format!("{EXPLAIN}?companyId={company}&objectType=crm_deal&relation=viewer{query}");
        app.ask("GET", &path, subject, None).await
    };
    let own = ask("alice", "&objectId=1").await;
    assert_eq!((&own.data()["tree"], own.text.contains("carol")), (&Value::Null, false), "{}", own.text);
    let path = own.data()["path"].as_str().expect("a path");
    assert!(path.contains("group:secret#member@user:alice"), "its own membership: {path}");
    let none = ask("bob", "&objectId=1").await;
    assert_eq!((&none.data()["tree"], &none.data()["path"]), (&Value::Null, &json!("no path")));
    assert!(!none.text.contains("secret") && !none.text.contains("carol"), "{}", none.text);
    let managed = ask("mia", "&objectId=1").await;
    assert!(managed.text.contains("secret") && managed.data()["tree"]["held"] == true, "{}", managed.text);
    let other = ask("mia", "&objectId=2").await;
    assert_eq!((&other.data()["tree"], &other.data()["path"]), (&Value::Null, &json!("no path")));
    assert!(!other.text.contains("secret"), "{}", other.text);
    let whole = ask("root", "&objectId=2&subject=bob").await;
    assert!(whole.text.contains("secret"), "{}", whole.text);
    // A member's own platform role.
    rows.member(company, "root").await;
    assert!(ask("root", "&objectId=2").await.text.contains("secret"));
    // Without a relation there is neither path nor tree.
    let path = format!("{EXPLAIN}?companyId={company}&objectType=crm_deal&objectId=1");
    let plain = app.ask("GET", &path, "bob", None).await;
    assert_eq!((&plain.data()["tree"], &plain.data()["path"]), (&Value::Null, &Value::Null));
}

/// Documents in nested folders, and who sees which of their shares.
#[tokio::test]
async fn a_tree_tells_the_shares_of_each_object_to_its_managers_only() {
    let (app, rows, company) = with_crm(&["alice", "mia"]).await;
    let this = || json!({ "this": true });
    let viewers = || {
        let above = json!({ "tupleToUserset": { "tupleset": "parent", "computedUserset": "viewer" } });
        json!({ "union": [this(), { "computedUserset": "owner" }, above] })
    };
    let kind = || json!({ "company_module": this(), "parent": this(), "owner": this(), "viewer": viewers() });
    rows.module("files", &json!({ "files_folder": kind(), "files_doc": kind() })).await;
    rows.run(
        r#"UPDATE registry.modules SET fragment = fragment || '{"objects": [
           {"objectType": "files_doc", "managerRelation": "owner"},
           {"objectType": "files_folder", "managerRelation": "owner"}]}' WHERE key = 'files'"#,
    )
    .await;
    rows.catalog_changed().await;
    for object in ["files_doc:d", "files_folder:sub", "files_folder:top"] {
        rows.tuple(&format!("{object}#company_module@company_module:{company}/files"), "grant").await;
    }
    for tuple in [
        "files_doc:d#parent@files_folder:sub",
        "files_doc:d#owner@user:alice",
        "files_doc:d#viewer@group:readers#member",
        "files_folder:sub#parent@files_folder:top",
        "files_folder:sub#viewer@group:editors#member",
        "files_folder:top#viewer@group:secret#member",
        "files_folder:top#viewer@position:council#holder",
        "files_folder:top#owner@user:mia",
        "group:secret#member@group:inner#member",
    ] {
        rows.tuple(tuple, "grant").await;
    }
    let tree = async |subject: &str, object: &str| {
        let (kind, id) = object.split_once(':').expect("type:id");
        let path = format!("{EXPLAIN}?companyId={company}&objectType={kind}&objectId={id}&relation=viewer");
        let told = app.ask("GET", &path, subject, None).await.data().clone();
        (told["tree"].to_string(), told["tree"].clone())
    };
    let names = |tree: &str| {
        [
            "group:readers",
            "files_folder:sub",
            "group:editors",
            "files_folder:top",
            "group:secret",
            "position:council",
        ]
        .map(|name| tree.contains(name))
    };
    rows.tuple("system:platform#superadmin@user:mia", "role").await;
    assert_eq!(names(&tree("mia", "files_doc:d").await.0), [true; 6], "control: a superadmin sees all");
    rows.run("DELETE FROM authz.tuple WHERE object_type = 'system' AND subject_id = 'mia'").await;
    let told = tree("alice", "files_doc:d").await;
    assert_eq!(names(&told.0), [true, true, false, false, false, false], "the document's own: {}", told.0);
    assert_eq!(tree("alice", "files_folder:top").await.1, Value::Null, "control");
    assert_eq!(tree("mia", "files_doc:d").await.1, Value::Null, "of the top folder only");
    let told = tree("mia", "files_folder:top").await;
    assert_eq!(names(&told.0), [false, false, false, true, true, true], "its own: {}", told.0);
    // Her own path goes through a folder that she does not manage: she sees that path and nothing else of the folder.
    rows.tuple("group:editors#member@user:alice", "org").await;
    let told = tree("alice", "files_doc:d").await;
    assert_eq!(names(&told.0), [true, true, true, false, false, false], "{}", told.0);
    assert!(told.0.contains("group:editors#member@user:alice"), "{}", told.0);
    rows.tuple("group:inner#member@user:alice", "org").await;
    let told = tree("alice", "files_doc:d").await;
    assert_eq!(names(&told.0), [true, true, true, true, true, false], "the group is hers: {}", told.0);
    // A manager of the middle folder sees its shares, but not those above it.
    rows.run("DELETE FROM authz.tuple WHERE object_type = 'group' AND subject_id = 'alice'").await;
    rows.tuple("files_folder:sub#owner@user:alice", "grant").await;
    let told = tree("alice", "files_doc:d").await;
    assert_eq!(names(&told.0), [true, true, true, true, false, false], "{}", told.0);
}
