//! Events that modules post on behalf of a user.

use contract::CorrelationId;
use serde_json::{Value, json};
use service::clients::notification::{Event, NotificationClient};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::start;
use crate::support::{actions, channel, jobs, received, start_with_receiver, webhook};

const PATH: &str = "/internal/notification/events";

fn event(module: &ModuleApi, channel: &str) -> Value {
    json!({ "companyId": module.company, "sourceModule": "helpdesk", "eventType": "ticket.created", "channelKey": channel,
        "subjectLine": "A ticket", "body": "It burns.", "dedupeKey": "ticket-7" })
}

async fn post(module: &ModuleApi, body: Value) -> Reply {
    module.call("POST", PATH).json(body).send().await
}

#[tokio::test]
async fn an_event_is_a_message_of_its_own_type_and_is_published_once() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    webhook(&module, "helpdesk", &receiver, "/hook").await;
    let first = post(&module, event(&module, "HelpDesk")).await;
    assert_eq!((first.status, &first.data()["deduplicated"]), (202, &json!(false)), "{}", first.text);
    let again = post(&module, event(&module, "helpdesk")).await;
    let expected = json!({ "messageId": first.data()["messageId"], "deduplicated": true });
    assert_eq!((again.status, again.data()), (202, &expected));
    let request = received(&receiver, 1).await.remove(0);
    assert_eq!(request.body["type"], "helpdesk.ticket.created");
    assert_eq!(request.body["data"]["createdBy"], "alice-subject");
    assert_eq!(jobs(&module).await.len(), 1);
    assert_eq!(actions(&module).await, ["channel.created", "message.created"]);
    let mut other = event(&module, "helpdesk");
    other["dedupeKey"] = json!("ticket-8");
    assert_eq!(post(&module, other).await.data()["deduplicated"], false, "control: another key");
}

#[tokio::test]
async fn without_the_channel_nothing_is_sent() {
    let module = start().await;
    channel(&module, "other", "in_app", None).await;
    let reply = post(&module, event(&module, "helpdesk")).await;
    assert_eq!((reply.status, reply.data()), (200, &json!({ "messageId": null })));
    let mut elsewhere = event(&module, "other");
    elsewhere["companyId"] = json!(Uuid::now_v7());
    assert_eq!(
        post(&module, elsewhere).await.data()["messageId"],
        Value::Null,
        "another company's channel is unknown"
    );
    assert_eq!(actions(&module).await, ["channel.created"]);
}

#[tokio::test]
async fn an_event_needs_the_users_bearer_and_membership() {
    let module = start().await;
    let body = event(&module, "helpdesk");
    let nobody = module.api.post(PATH).json(body.clone()).send().await;
    assert_eq!((nobody.status, nobody.code()), (401, "AUTH_TOKEN_MISSING"));
    let asked = module.questions().len();
    module.hold(&[]);
    let refused = post(&module, body.clone()).await;
    assert_eq!((refused.status, refused.code()), (403, "AUTHORIZATION_DENIED"));
    let question = module.question("notification.events.post", "member", false);
    assert_eq!(module.questions().split_off(asked), [question]);
    module.hold(&["member"]);
    assert_eq!(post(&module, body).await.status, 200, "control: a member suffices");
}

/// Posts as a module's worker: with the services' credential and without a bearer.
async fn post_as_service(module: &ModuleApi, credential: &str, body: Value) -> Reply {
    module.api.post(PATH).header("x-platform-service", credential).json(body).send().await
}

fn let_in(module: &ModuleApi, held: bool) {
    let path = format!("/internal/authz/directory/{}/*", module.company);
    let reason = if held { "ALLOWED" } else { "COMPANY_MEMBERSHIP_REQUIRED" };
    let answer = json!({ "data": { "held": held, "reason": reason, "evidence": [] } });
    module.authz.answer("GET", &path, 200, answer);
}

#[tokio::test]
async fn a_service_posts_in_the_name_of_a_subject_to_whom_the_company_is_open() {
    let module = start().await;
    channel(&module, "helpdesk", "in_app", None).await;
    let_in(&module, true);
    let mut body = event(&module, "helpdesk");
    body["subject"] = json!("bob/subject");
    let first = post_as_service(&module, testkit::SERVICE, body.clone()).await;
    assert_eq!((first.status, &first.data()["deduplicated"]), (202, &json!(false)), "{}", first.text);
    let again = post_as_service(&module, testkit::SERVICE, body).await;
    assert_eq!((again.status, &again.data()["deduplicated"]), (202, &json!(true)));
    let asked = module.authz.requests();
    let asked = asked.iter().rfind(|request| request.path.contains("/directory/")).expect("authz was asked");
    let path = format!("/internal/authz/directory/{}/bob%2Fsubject", module.company);
    assert_eq!(asked.path, path);
    assert_eq!(asked.headers.get("x-platform-service").expect("a credential"), testkit::SERVICE);
    assert!(asked.headers.get("authorization").is_none());
    let rows = module.audit().await;
    let row = rows.last().expect("an audit row");
    assert_eq!([&row["actor"], &row["action"]], [&json!("bob/subject"), &json!("message.created")]);
}

#[tokio::test]
async fn without_the_credential_a_subject_or_authzs_answer_a_service_posts_nothing() {
    let module = start().await;
    channel(&module, "helpdesk", "in_app", None).await;
    let before = module.contents().await;
    let mut body = event(&module, "helpdesk");
    let_in(&module, true);
    let missing = post_as_service(&module, testkit::SERVICE, body.clone()).await;
    assert_eq!(missing.wrong_fields(), ["subject required"]);
    body["subject"] = json!("bob-subject");
    for wrong in ["", "x", "the-credential-of-nobody-at-all"] {
        let refused = post_as_service(&module, wrong, body.clone()).await;
        assert_eq!((refused.status, refused.code()), (401, "AUTH_TOKEN_INVALID"), "{wrong}");
        // A bearer does not make up for it.
        let both =
            module.call("POST", PATH).header("x-platform-service", wrong).json(body.clone()).send().await;
        assert_eq!(both.status, 401);
    }
    let_in(&module, false);
    let refused = post_as_service(&module, testkit::SERVICE, body.clone()).await;
    assert_eq!((refused.status, refused.code()), (403, "AUTHORIZATION_DENIED"));
    let path = format!("/internal/authz/directory/{}/*", module.company);
    for (status, answer) in [(500, json!({})), (200, json!({})), (200, json!({ "data": { "held": true } }))] {
        module.authz.answer("GET", &path, status, answer);
        let refused = post_as_service(&module, testkit::SERVICE, body.clone()).await;
        testkit::module::gates::refused_for(&refused, "authz", "no whole answer");
    }
    module.authz.close("GET", &path);
    let refused = post_as_service(&module, testkit::SERVICE, body).await;
    testkit::module::gates::refused_for(&refused, "authz", "closed");
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn limits_of_an_event_hold_at_and_one_past() {
    let module = start().await;
    channel(&module, "helpdesk", "in_app", None).await;
    let ask = async |change: Value| {
        let mut body = event(&module, "helpdesk");
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        post(&module, body).await
    };
    for good in [
        json!({ "dedupeKey": "x".repeat(200) }),
        json!({ "sourceModule": "a".repeat(32) }),
        json!({ "eventType": "a".repeat(64) }),
    ] {
        assert_eq!(ask(good.clone()).await.status, 202, "{good}");
    }
    for (bad, wrong) in [
        (json!({ "dedupeKey": "x".repeat(201) }), "dedupeKey length"),
        (json!({ "dedupeKey": null }), "dedupeKey required"),
        (json!({ "sourceModule": "a".repeat(33) }), "sourceModule length"),
        (json!({ "sourceModule": "Help" }), "sourceModule pattern"),
        (json!({ "eventType": "a".repeat(65) }), "eventType length"),
        (json!({ "eventType": "1st" }), "eventType pattern"),
        (json!({ "channelKey": "a b" }), "channelKey pattern"),
        (json!({ "subjectLine": "x".repeat(201) }), "subjectLine length"),
        (json!({ "body": "x".repeat(10_001) }), "body length"),
        (json!({ "companyId": 7 }), "companyId uuid"),
    ] {
        assert_eq!(ask(bad.clone()).await.wrong_fields(), [wrong], "{bad}");
    }
}

#[tokio::test]
async fn the_client_of_modules_posts_what_the_route_takes_and_never_fails() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    webhook(&module, "helpdesk", &receiver, "/hook").await;
    let event = Event {
        company_id: module.company.into(),
        source_module: "helpdesk",
        event_type: "ticket.created",
        channel_key: "helpdesk",
        subject_line: "A ticket",
        body: "It burns.",
        dedupe_key: "ticket-7",
    };
    let token = module.issuer.issue("alice-subject");
    let correlation = CorrelationId::accept(Some(b"test-correlation-1"));
    let stub = testkit::Stub::start().await;
    stub.answer("POST", PATH, 500, Value::Null);
    // Neither a response of 500 nor a refused connection is an error for the caller.
    NotificationClient::new(&stub.url()).post(&token, &event, &correlation).await;
    NotificationClient::new("http://127.0.0.1:1").post(&token, &event, &correlation).await;
    assert_eq!(stub.requests().len(), 1);
    NotificationClient::new(module.api.base_url()).post(&token, &event, &correlation).await;
    assert_eq!(received(&receiver, 1).await[0].body["type"], "helpdesk.ticket.created");
}
