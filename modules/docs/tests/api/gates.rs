//! Checks that precede every operation, and the probes. Documents and folders are looked up before the decision, so the
//! calls are about existing ones that someone else owns, which gives the usual decision.

use serde_json::{Value, json};
use testkit::module::gates::{self, Sample};
use testkit::module::{limits, probes};
use testkit::{ModuleApi, Operation};
use uuid::Uuid;

use crate::{start, start_without_database};

const MEMBER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_2001);
const DOCUMENT: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_3001);
const FOLDER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_3002);
const SHARE: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_3003);
const FOLDER_SHARE: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_3004);
const COMMENT: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_3005);
const REQUEST: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_3006);

fn samples() -> Vec<Sample> {
    let document = |tail: &str| format!("/documents/{DOCUMENT}{tail}");
    let folder = |tail: &str| format!("/folders/{FOLDER}{tail}");
    let member = || json!({ "memberId": MEMBER, "role": "viewer" });
    let role = || json!({ "role": "editor" });
    let request = |tail: &str| document(&format!("/access-requests/{REQUEST}/{tail}"));
    vec![
        Sample::of("listDocuments", "/documents"),
        Sample::of("listDocuments", "/documents?view=shared"),
        Sample::of("createDocument", "/documents").with(json!({ "title": "Plan", "body": "one" })),
        Sample::of("getDocument", document("")),
        Sample::of("updateDocument", document("")).with(json!({ "title": "Plan", "baseVersion": 1 })),
        Sample::of("trashDocument", document("")),
        Sample::of("restoreDocument", document("/restore")),
        Sample::of("duplicateDocument", document("/duplicate")).with(json!({ "title": "Copy" })),
        Sample::of("moveDocument", document("/move")).with(json!({ "folderId": FOLDER })),
        Sample::of("listVersions", document("/versions")),
        Sample::of("getVersion", document("/versions/1")),
        Sample::of("restoreVersion", document("/versions/1/restore")),
        Sample::of("listShares", document("/shares")),
        Sample::of("createShare", document("/shares")).with(member()),
        Sample::of("updateShare", document(&format!("/shares/{SHARE}"))).with(role()),
        Sample::of("deleteShare", document(&format!("/shares/{SHARE}"))),
        Sample::of("setAccess", document("/access")).with(json!({ "editorsCanShare": true })),
        Sample::of("transferOwnership", document("/transfer")).with(json!({ "memberId": MEMBER })),
        Sample::of("listDocumentHistory", document("/history")),
        Sample::of("listComments", document("/comments")),
        Sample::of("createComment", document("/comments")).with(json!({ "body": "Why?" })),
        Sample::of("resolveComment", document(&format!("/comments/{COMMENT}/resolve"))),
        Sample::of("requestAccess", document("/access-requests")).with(role()),
        Sample::of("listAccessRequests", document("/access-requests")),
        Sample::of("acceptAccessRequest", request("accept")),
        Sample::of("declineAccessRequest", request("decline")),
        Sample::of("listFolders", "/folders"),
        Sample::of("createFolder", "/folders").with(json!({ "name": "Policies" })),
        Sample::of("getFolder", folder("")),
        Sample::of("renameFolder", folder("")).with(json!({ "name": "Policies" })),
        Sample::of("deleteFolder", folder("")),
        Sample::of("moveFolder", folder("/move")).with(json!({ "parentId": FOLDER })),
        Sample::of("listFolderShares", folder("/shares")),
        Sample::of("createFolderShare", folder("/shares")).with(member()),
        Sample::of("updateFolderShare", folder(&format!("/shares/{FOLDER_SHARE}"))).with(role()),
        Sample::of("deleteFolderShare", folder(&format!("/shares/{FOLDER_SHARE}"))),
    ]
}

fn operations() -> Vec<Operation> {
    gates::operations(docs::operations().table(), &samples())
}

fn script(module: &ModuleApi) {
    module.member(MEMBER, &[], &[]);
    drop(module.take_tuples());
    let lookup = format!("/internal/org/companies/{}/lookup", module.company);
    let found = json!({ "data": { "members": [{ "id": MEMBER, "displayName": "Bob", "email": null, "isActive": true,
        "kcSub": "bob-subject" }], "positions": [], "groups": [] } });
    module.org.answer("POST", &lookup, 200, found);
    let owner = format!("/internal/org/companies/{}/members/by-kcsub/owner/context", module.company);
    let none = json!({ "data": { "isMember": false, "isActive": false, "memberId": null, "displayName": null, "email": null,
        "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &owner, 200, none);
}

async fn prepared() -> ModuleApi {
    let module = start().await;
    script(&module);
    let company = module.company;
    module
        .execute(format!(
            "INSERT INTO docs.documents(id, company_id, title, body, current_version, owner_kc_sub, owner_member_id, state,
               updated_by)
             VALUES ('{DOCUMENT}', '{company}', 'Plan', 'one', 1, 'owner', '{MEMBER}', 'active', 'owner');
             INSERT INTO docs.versions(document_id, version, title, body, author) VALUES ('{DOCUMENT}', 1, 'Plan', 'one', 'owner');
             INSERT INTO docs.document_counts(company_id, active, open, trashed) VALUES ('{company}', 1, 0, 0);
             INSERT INTO docs.folders(id, company_id, name, owner_kc_sub, owner_member_id, state)
             VALUES ('{FOLDER}', '{company}', 'Policies', 'owner', '{MEMBER}', 'active');
             INSERT INTO docs.folder_ancestors VALUES ('{company}', '{FOLDER}', '{FOLDER}', 0);
             INSERT INTO docs.shares(id, company_id, document_id, folder_id, principal_kind, group_id, role, state, granted_by)
             VALUES ('{SHARE}', '{company}', '{DOCUMENT}', NULL, 'group', '{SHARE}', 'viewer', 'active', 'owner'),
               ('{FOLDER_SHARE}', '{company}', NULL, '{FOLDER}', 'group', '{SHARE}', 'viewer', 'active', 'owner');
             INSERT INTO docs.comments(id, company_id, document_id, version, body, author)
             VALUES ('{COMMENT}', '{company}', '{DOCUMENT}', 1, 'Why?', 'owner');
             INSERT INTO docs.access_requests(id, company_id, document_id, member_id, kc_sub, role, note)
             VALUES ('{REQUEST}', '{company}', '{DOCUMENT}', '{SHARE}', 'eve', 'viewer', '')"
        ))
        .await;
    module
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    gates::check(&prepared().await, &operations()).await;
}

#[tokio::test]
async fn a_call_fails_closed_without_a_database() {
    let module = start_without_database().await;
    script(&module);
    gates::check_without_database(&module, &operations()).await;
    probes::check_without_database(&module).await;
}

#[tokio::test]
async fn request_bodies_hold_the_documents_limits_at_and_one_past() {
    limits::check(&prepared().await, &operations()).await;
}

#[tokio::test]
async fn probes_and_metrics() {
    let module = start().await;
    script(&module);
    probes::check(&module, "/documents", "/documents").await;
}

#[tokio::test]
async fn an_unknown_document_or_folder_asks_no_decision() {
    let module = prepared().await;
    let unknown = Uuid::now_v7();
    for operation in operations().iter().filter(|operation| operation.of_existing) {
        let tail = operation.tail.replace(&DOCUMENT.to_string(), &unknown.to_string());
        let tail = tail.replace(&FOLDER.to_string(), &unknown.to_string());
        let asked = module.questions().len();
        let reply = module.ask(operation.method, &tail, operation.body.clone()).await;
        assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "{tail}");
        assert_eq!(module.questions().len(), asked, "{tail}");
        let other = module.path(Uuid::now_v7(), &operation.tail);
        let body = operation.body.clone().unwrap_or(Value::Null);
        let call = module.call(operation.method, &other).json(body);
        let reply = module.send(operation.method, &operation.tail, call).await;
        assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "in another company: {tail}");
    }
}

#[tokio::test]
async fn a_malformed_id_is_told_before_anything_is_looked_up() {
    let module = start().await;
    for tail in ["/documents/x", "/documents/x/shares", "/folders/x"] {
        let reply = module.ask("GET", tail, None).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{tail}");
    }
    let tail = format!("/documents/{DOCUMENT}/shares/x");
    assert_eq!(module.ask("DELETE", &tail, None).await.status, 400);
    assert!(module.questions().is_empty());
}
