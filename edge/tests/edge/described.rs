//! Compares the published description with the gateway: its examples of refusals and probes must equal the gateway's
//! answers, and each answer must be listed for its operation.

use http::Method;
use serde_json::Value;

use crate::client::{Reply, Version};
use crate::world::World;

fn document() -> Value {
    serde_json::from_str(edge::OPENAPI).expect("JSON")
}

/// An example of one of the shared answers.
fn example(answer: &str, name: &str) -> Value {
    let content = &document()["components"]["responses"][answer]["content"]["application/json"];
    let example = content["examples"][name]["value"].clone();
    assert!(example.is_object(), "{answer} has no example {name}");
    example
}

/// Compares an answer with an example, and with the operation's list of answers.
fn compare(reply: &Reply, operation: (&Method, &str), answer: &str, name: &str) {
    assert_eq!(reply.json(), example(answer, name), "{operation:?}");
    let (method, path) = operation;
    let listed = &document()["paths"][path][method.as_str().to_ascii_lowercase()]["responses"];
    let reference = format!("#/components/responses/{answer}");
    assert_eq!(listed[reply.status.to_string()]["$ref"], reference.as_str(), "{operation:?}");
}

#[tokio::test]
async fn refusals_are_the_described_ones() {
    let world = World::with(&[("PLATFORM_ORG_BASE_URL", "http://127.0.0.1:9")]).await;
    let bearer = world.bearer("alice");
    let auth = ("authorization", bearer.as_str());
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let (long, large) = ("x".repeat(61 << 10), "x".repeat((1 << 20) + 1));
    let catalog = "/api/platform/catalog";
    let can = "/api/auth/effective-access/can";
    for (method, path, headers, body, answer, name) in [
        (Method::GET, catalog, vec![auth, ("x-user-id", "root")], "", "BadRequest", "BAD_REQUEST"),
        (Method::GET, catalog, vec![], "", "Unauthorized", "AUTH_TOKEN_MISSING"),
        (Method::GET, catalog, vec![("authorization", "Bearer x")], "", "Unauthorized", "AUTH_TOKEN_INVALID"),
        (Method::GET, "/api/platform/metrics", vec![auth], "", "Denied", "PLATFORM_ROLE_REQUIRED"),
        (Method::POST, can, vec![auth], &large, "PayloadTooLarge", "PAYLOAD_TOO_LARGE"),
        (Method::GET, catalog, vec![auth, ("x-long", &long)], "", "HeadersTooLarge", "HEADERS_TOO_LARGE"),
    ] {
        let reply = world.send(Version::H1, method.clone(), path, &headers, body).await;
        compare(&reply, (&method, path), answer, name);
    }
    for (method, path, name) in [
        (Method::GET, "/nowhere".to_owned(), ("NotFound", "NOT_FOUND")),
        (Method::POST, catalog.to_owned(), ("MethodNotAllowed", "METHOD_NOT_ALLOWED")),
        (Method::GET, format!("/{}", "x".repeat(17 << 10)), ("UriTooLong", "URI_TOO_LONG")),
    ] {
        let reply = world.send(Version::H1, method, &path, &[auth], "").await;
        assert_eq!(reply.json(), example(name.0, name.1));
    }
    let unavailable = world.get("/api/org/me/companies", &[auth]).await.json();
    let mut described = example("Unavailable", "AUTHORIZATION_UNAVAILABLE");
    described["error"]["details"]["dependency"] = "org".into();
    assert_eq!(unavailable, described);
}

#[tokio::test]
async fn a_limited_client_is_told_in_the_described_words() {
    let world = World::with(&[("PLATFORM_RATE_LIMIT", "1/m")]).await;
    let bearer = world.bearer("alice");
    let catalog = "/api/platform/catalog";
    world.get(catalog, &[("authorization", &bearer)]).await;
    let reply = world.get(catalog, &[("authorization", &bearer)]).await;
    let described = &document()["components"]["responses"]["TooManyRequests"];
    assert_eq!(reply.status, 429);
    for name in described["headers"].as_object().expect("headers").keys() {
        assert!(reply.header(&name.to_ascii_lowercase()).is_some(), "{name}");
    }
    let mut error = reply.json();
    let mut example = example("TooManyRequests", "RATE_LIMITED");
    for body in [&mut error, &mut example] {
        assert!(body["error"]["details"]["retryAfterSeconds"].take().as_u64() > Some(0), "{body}");
    }
    assert_eq!(error, example);
}

#[tokio::test]
async fn probes_answer_as_described() {
    let world = World::cold(&[("IDP_JWKS_URL", "http://{backend}/nothing")]).await;
    let words = |path: &str, status: &str| {
        let content = &document()["paths"][path]["get"]["responses"][status]["content"]["application/json"];
        let enumerated = content["schema"]["properties"]["data"]["properties"]["status"]["enum"].clone();
        (enumerated, content["examples"].clone())
    };
    for (path, status, word) in [("/healthz", 200, "ok"), ("/readyz", 503, "starting")] {
        let reply = world.send(Version::H2, Method::GET, path, &[], "").await;
        let (enumerated, examples) = words(path, &status.to_string());
        assert_eq!((reply.status, reply.json()), (status, examples[word]["value"].clone()));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert!(enumerated.as_array().is_some_and(|words| words.contains(&word.into())), "{enumerated}");
    }
    let world = World::start().await;
    let reply = world.get("/readyz", &[]).await;
    assert_eq!((reply.status, reply.json()), (200, words("/readyz", "200").1["ready"]["value"].clone()));
    assert_eq!(words("/readyz", "503").0, serde_json::json!(["starting", "stuck", "draining"]));
}

/// Removes what may differ between two descriptions of one body: texts, and the order of the required members.
fn rules_of(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| *name != "description" || !value.is_string());
            let ruled = kept.map(|(name, value)| {
                let mut rules = rules_of(value);
                if let (true, Some(names)) = (name == "required", rules.as_array_mut()) {
                    names.sort_by_key(ToString::to_string);
                }
                (name.clone(), rules)
            });
            ruled.collect()
        }
        Value::Array(items) => items.iter().map(rules_of).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

#[test]
fn bodies_have_the_limits_that_the_services_describe() {
    // The gateway's callers set no `probe` and may leave out the reserved member; the only role is listed.
    const OWN: [&str; 2] = ["EffectiveAccessRequest", "PlatformRoleRequest"];
    let services = [
        include_str!("../../../services/authz/openapi.json"),
        include_str!("../../../services/org/openapi.json"),
        include_str!("../../../services/registry/openapi.json"),
    ];
    let services = services.map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
    let document = document();
    let operations = document["paths"].as_object().expect("paths").values();
    let operations = operations.flat_map(|path| path.as_object().expect("operations").values());
    let references = operations.filter_map(|operation| {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str()
    });
    let mut compared = Vec::new();
    for name in references.filter_map(|reference| reference.rsplit('/').next()) {
        let described = services.iter().map(|service| &service["components"]["schemas"][name]);
        for schema in described.filter(|schema| schema.is_object() && !OWN.contains(&name)) {
            assert_eq!(rules_of(&document["components"]["schemas"][name]), rules_of(schema), "{name}");
            compared.push(name);
        }
    }
    compared.sort_unstable();
    let expected = [
        "AppManifest",
        "AuthZenEvaluation",
        "AuthZenEvaluations",
        "AuthzGrantsRequest",
        "OrgGroupCreateRequest",
        "OrgMemberCreateRequest",
        "OrgMemberUpdateRequest",
        "OrgPositionCreateRequest",
        "OrgUnitCreateRequest",
    ];
    assert_eq!(compared, expected);
}
