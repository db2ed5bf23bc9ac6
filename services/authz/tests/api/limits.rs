//! Request bodies at the limits that the documents state and one past them: authz's own document, and the gateway's for
//! the routes that lead here.

use serde_json::{Value, json};
use testkit::OpenApi;
use testkit::module::limits::disagreements;

use crate::app::App;

const GATEWAY: &str = include_str!("../../../../edge/openapi.json");
/// Minimum number of cases per operation; with fewer, its schema was not found or states no limits.
const LEAST: usize = 8;

/// A route, its `operationId` in authz's document and in the gateway's, and a valid body.
type Route = (&'static str, &'static str, Option<&'static str>, Value);

fn routes(company: &str) -> Vec<Route> {
    let object = || json!({ "type": "crm_deal", "id": "1" });
    let tuple = json!({ "objectType": "crm_deal", "objectId": "1", "relation": "owner", "subjectType": "user",
        "subjectId": "root" });
    let evaluation = || json!({ "subject": { "type": "user", "id": "root" }, "action": { "name": "viewer" }, "resource": object() });
    let mut many = evaluation();
    many["evaluations"] = json!([evaluation()]);
    vec![
        (
            "/internal/authz/effective-access/can",
            "can",
            Some("decide"),
            json!({ "featureKey": "crm.access", "scope": "company", "companyId": company }),
        ),
        (
            "/internal/authz/effective-access/batch-can",
            "batchCan",
            Some("decideBatch"),
            json!({ "items": [{ "object": object(), "relation": "viewer" }] }),
        ),
        ("/internal/authz/access/v1/evaluation", "evaluate", Some("evaluate"), evaluation()),
        ("/internal/authz/access/v1/evaluations", "evaluateMany", Some("evaluateMany"), many),
        (
            "/internal/authz/grants",
            "grants",
            Some("grant"),
            json!({ "op": "revoke", "companyId": company, "tuples": [tuple] }),
        ),
        ("/internal/authz/tuples/lookup", "lookupTuples", None, json!({ "tuples": [tuple] })),
        (
            "/internal/authz/tuples/revoke",
            "revokeTuples",
            None,
            json!({ "moduleKey": "crm", "companyId": company, "reason": "GONE", "tuples": [tuple] }),
        ),
        (
            "/internal/authz/platform-roles",
            "grantPlatformRole",
            None,
            json!({ "subjectId": "root", "role": "platform-superadmin" }),
        ),
    ]
}

#[tokio::test]
async fn every_body_has_the_limits_of_both_documents() {
    let app = App::start().await;
    let company = app.rows().company().await.to_string();
    let gateway = OpenApi::parse(GATEWAY);
    let token = app.issuer.issue("root");
    let mut wrong = Vec::new();
    for (path, own, edge, body) in routes(&company) {
        let send = async |body: Value| {
            let call = app.api.post(path).json(body);
            let by_service = path.starts_with("/internal/authz/tuples/");
            if by_service { call.service().send().await } else { call.bearer(&token).send().await }
        };
        let documents = [(app.document(), Some(own)), (&gateway, edge)];
        for (document, id) in documents.into_iter().filter_map(|(document, id)| Some((document, id?))) {
            let (found, count) = disagreements(document, id, &body, send).await;
            wrong.extend(found);
            if count < LEAST {
                wrong.push(format!("{id}: only {count} cases"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
