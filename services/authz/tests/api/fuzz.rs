//! Malformed bodies: valid ones mutated at random, and random bytes. Every answer must be listed in the document and
//! must not be 500, and the service must keep running. Takes seconds; `AUTHZ_FUZZ_SECONDS` makes it longer.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use crate::can::with_crm;
use crate::cases::told;
use crate::journal::number;

const ROUTES: [&str; 6] = [
    "/internal/authz/effective-access/can",
    "/internal/authz/effective-access/batch-can",
    "/internal/authz/grants",
    "/internal/authz/tuples/lookup",
    "/internal/authz/access/v1/evaluation",
    "/internal/authz/access/v1/evaluations",
];

fn right(company: &str) -> Vec<Value> {
    let tuple = json!({ "objectType": "crm_deal", "objectId": "1", "relation": "viewer", "subjectType": "user", "subjectId": "a" });
    let object = json!({ "type": "crm_deal", "id": "1" });
    vec![
        json!({ "featureKey": "crm.deals.read", "scope": "company", "companyId": company, "moduleKey": "crm",
            "object": object, "relation": "viewer", "requiredCompanyRole": "member", "requiresEligibility": false,
            "requiredPlatformRole": "platform-superadmin", "allowPlatformOperatorCompanyScope": true,
            "correlationId": "c", "actorId": "root" }),
        json!({ "items": [{ "object": object, "relation": "viewer" }] }),
        json!({ "op": "grant", "companyId": company, "correlationId": "c", "tuples": [tuple] }),
        json!({ "subject": { "type": "user", "id": "root" }, "action": { "name": "viewer" }, "resource": object,
            "evaluations": [{ "resource": object }], "options": { "evaluations_semantic": "execute_all" } }),
    ]
}

/// Any JSON, including texts that often break parsers.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["", "\0", "\u{202e}", "a:b#c@d", "/", "*", "company_module", "\u{10ffff}"])
            .prop_map(Value::from),
        (190_usize..260).prop_map(|length| Value::from("x".repeat(length))),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{0,8}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A mutation: its position and the new value.
type Bend = (prop::sample::Index, Option<Value>);

fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, inner)| places(inner, &format!("{here}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, inner)| places(inner, &format!("{here}/{at}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn bend(mut body: Value, bends: &[Bend]) -> Value {
    for (place, into) in bends {
        let mut found = Vec::new();
        places(&body, "", &mut found);
        let path = place.get(&found).clone();
        if let Some(value) = into {
            if let Some(target) = body.pointer_mut(&path) {
                *target = value.clone();
            }
        } else {
            let (parent, name) = path.rsplit_once('/').unwrap_or_default();
            if let Some(Value::Object(members)) = body.pointer_mut(parent) {
                members.remove(name);
            }
        }
    }
    body
}

#[tokio::test]
async fn no_body_breaks_the_service() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    let token = app.issuer.token("root").expires_in(7_200).sign();
    let bodies = right(&company.to_string());
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let bends = prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any_json())), 0..4);
    let input = (
        0..ROUTES.len(),
        prop::sample::select(bodies),
        bends,
        any::<u8>(),
        prop::collection::vec(any::<u8>(), 0..200),
    );
    let limit = Duration::from_secs(number("AUTHZ_FUZZ_SECONDS", 5));
    let (begun, mut sent, mut statuses) = (Instant::now(), 0_u64, std::collections::BTreeMap::new());
    while begun.elapsed() < limit {
        let (route, body, bends, sort, bytes) = input.new_tree(&mut runner).expect("a value").current();
        let call = app.api.post(ROUTES[route]).bearer(&token).header("content-type", "application/json");
        let reply = match sort {
            0..20 => call.body(bytes).send().await,
            _ => call.json(bend(body.clone(), &bends)).send().await,
        };
        assert!(
            reply.status < 500 || reply.status == 503,
            "{} {body} {bends:?}: {}",
            ROUTES[route],
            reply.text
        );
        app.document().check("POST", ROUTES[route], &reply);
        *statuses.entry(reply.status).or_insert(0_u64) += 1;
        sent += 1;
    }
    assert!(statuses.contains_key(&200) && statuses.contains_key(&400), "{statuses:?}");
    assert_eq!(app.api.get("/ready").send().await.status, 200);
    told(&format!("{sent} bodies in {:?}: {statuses:?}", begun.elapsed()));
}
