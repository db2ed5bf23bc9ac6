//! Signing secrets: who sees them, how they are stored, and their rotation.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::Clock;
use notification::{KEY, OPENAPI};
use ring::hmac;
use serde_json::{Value, json};
use testkit::{ModuleApi, Recorded, Reply, Stub};

use crate::support::{
    LOCAL, actions, channel, header, message, reason, received, settled, start_with_receiver, together,
    until, webhook,
};
use crate::{serve_by, start};

/// The check that the Standard Webhooks specification requires of a receiver: one of the signatures sent was made with
/// one of these secrets.
fn verifies(request: &Recorded, secret: &str) -> bool {
    let bytes = STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret")).expect("base64");
    let (id, timestamp) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &request.raw].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
    let sent = header(request, "webhook-signature").split(' ');
    let mut tags = sent.filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    tags.any(|tag| hmac::verify(&key, &signed, &tag).is_ok())
}

fn secret_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data()["secret"].as_str().expect("a secret").to_owned()
}

#[tokio::test]
async fn property_12_a_secret_is_sealed_in_the_database_and_in_no_other_answer() {
    let module = start().await;
    let hook = channel(&module, "hook", "webhook", Some("https://hooks.example.com/")).await;
    let reply = module.ask("GET", &format!("/channels/{hook}/signing-secret"), None).await;
    let secret = secret_of(&reply);
    assert_eq!(reply.data()["previousSecretExpiresAt"], Value::Null);
    let bytes = STANDARD.decode(secret.strip_prefix("whsec_").expect("the form")).expect("base64");
    assert_eq!(bytes.len(), 32);
    let kept = format!("{:?}", module.contents().await);
    let hex = format!("{:032x}", u128::from_be_bytes(bytes[..16].try_into().expect("16 of 32 bytes")));
    assert!(!kept.contains(&secret[6..20]) && !kept.contains(&hex[..16]), "neither as text nor as bytes");
    let sealed =
        module.database.rows("SELECT to_jsonb(sealed) FROM notification.channel_secrets".to_owned()).await;
    assert_eq!(sealed, [json!(true)]);
    for tail in ["/channels".to_owned(), format!("/channels/{hook}"), format!("/channels/{hook}/health")] {
        assert!(!module.ask("GET", &tail, None).await.text.contains("whsec_"), "{tail}");
    }
    assert_eq!(actions(&module).await, ["channel.created", "secret.read"]);
    assert!(!format!("{:?}", module.audit().await).contains(&secret[6..20]));
}

#[tokio::test]
async fn only_webhooks_have_one_and_a_rotation_waits_for_the_end_of_the_last() {
    let module = start().await;
    let mail = channel(&module, "mail", "email", None).await;
    let hook = channel(&module, "hook", "webhook", Some("https://hooks.example.com/")).await;
    for (method, tail) in [("GET", "signing-secret"), ("POST", "signing-secret/rotate")] {
        let refused = module.ask(method, &format!("/channels/{mail}/{tail}"), None).await;
        assert_eq!((refused.status, reason(&refused)), (422, "NOT_A_WEBHOOK"), "{method}");
        let unknown = format!("/channels/{}/{tail}", module.company);
        assert_eq!(module.ask(method, &unknown, None).await.status, 404, "{method}");
    }
    let rotate = format!("/channels/{hook}/signing-secret/rotate");
    assert_eq!(module.ask("POST", &rotate, None).await.status, 200);
    let again = module.ask("POST", &rotate, None).await;
    assert_eq!((again.status, again.code()), (409, "ROTATION_IN_PROGRESS"));
}

#[tokio::test]
async fn of_rotations_at_the_same_time_one_is_made_and_the_old_secret_signs_on() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let secret = format!("/channels/{hook}/signing-secret");
    let old = secret_of(&module.ask("GET", &secret, None).await);
    let asked: Vec<_> = (0..4).map(|_| (format!("{secret}/rotate"), None)).collect();
    let replies = together(&module, &format!("notification.channels WHERE id = '{hook}'"), &asked).await;
    let (made, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    let refused: Vec<_> = refused.iter().map(|reply| (reply.status, reply.code())).collect();
    assert_eq!((made.len(), refused), (1, vec![(409, "ROTATION_IN_PROGRESS"); 3]));
    let new = secret_of(made[0]);
    message(&module, &hook).await;
    let sent = received(&receiver, 1).await.pop().expect("a request");
    assert!(verifies(&sent, &old) && verifies(&sent, &new), "both sign for a day");
    assert_eq!(actions(&module).await.iter().filter(|action| *action == "secret.rotated").count(), 1);
}

#[tokio::test]
async fn a_previous_secret_that_cannot_be_opened_does_not_sign_and_holds_up_nothing() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let rotate = format!("/channels/{hook}/signing-secret/rotate");
    let new = secret_of(&module.ask("POST", &rotate, None).await);
    let spoil = async |column: &str| {
        // As after the loss of the key that sealed it.
        let flipped =
            format!("set_byte({column}, length({column}) - 1, get_byte({column}, length({column}) - 1) # 1)");
        module.execute(format!("UPDATE notification.channel_secrets SET {column} = {flipped}")).await;
    };
    spoil("previous_secret").await;
    message(&module, &hook).await;
    assert!(verifies(&received(&receiver, 1).await[0], &new));
    spoil("secret").await;
    message(&module, &hook).await;
    let waits = |jobs: &[Value]| jobs.iter().any(|job| job["class"] == "secret_unavailable");
    until(&module, waits).await;
    assert_eq!(receiver.requests().len(), 1, "control: nothing is sent unsigned");
}

/// A module with a clock that the test moves.
async fn start_by(clock: &Clock) -> (ModuleApi, Stub) {
    let clock = clock.clone();
    let module = ModuleApi::start(KEY, OPENAPI, move |settings, listener, stop| {
        let settings = LOCAL.iter().fold(settings, |all, (name, value)| all.with(*name, *value));
        serve_by(clock, settings, listener, stop)
    });
    (module.await, Stub::start().await)
}

#[tokio::test]
async fn property_3_both_secrets_sign_for_a_day_after_a_rotation_and_then_the_new_one_alone() {
    let clock = Clock::standing_at(Clock::system().unix_seconds());
    let (module, receiver) = start_by(&clock).await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let ask = async |method: &str, tail: &str| {
        let path = module.path(module.company, &format!("/channels/{hook}/signing-secret{tail}"));
        let call = if method == "GET" { module.api.get(path) } else { module.api.post(path) };
        let token = module.issuer.token("alice-subject").expires_in(3 * 86_400).sign();
        call.bearer(&token).send().await
    };
    let deliver = async |count: usize| {
        let token = module.issuer.token("alice-subject").expires_in(3 * 86_400).sign();
        let call = module.api.post(module.path(module.company, "/messages")).bearer(&token);
        let body = json!({ "channelId": hook, "subjectLine": "s", "body": "b" });
        assert_eq!(call.json(body).send().await.status, 201);
        received(&receiver, count).await.pop().expect("a request")
    };
    let old = secret_of(&ask("GET", "").await);
    let before = deliver(1).await;
    assert!(verifies(&before, &old));
    assert_eq!(header(&before, "webhook-timestamp"), clock.unix_seconds().to_string());
    let rotated = ask("POST", "/rotate").await;
    let new = secret_of(&rotated);
    assert_ne!(old, new);
    assert!(rotated.data()["previousSecretExpiresAt"].is_string());
    assert_eq!(secret_of(&ask("GET", "").await), new);
    clock.advance(Duration::from_secs(86_399));
    let during = deliver(2).await;
    assert!(verifies(&during, &old) && verifies(&during, &new), "both, to the last second");
    clock.advance(Duration::from_secs(1));
    let after = deliver(3).await;
    assert!(!verifies(&after, &old) && verifies(&after, &new), "a day later only the new one signs");
    assert_eq!(ask("GET", "").await.data()["previousSecretExpiresAt"], Value::Null);
    assert_eq!(ask("POST", "/rotate").await.status, 200, "the next rotation may begin");
}

#[tokio::test]
async fn property_12_neither_secret_nor_target_is_in_a_row_of_the_audit_or_the_log_of_deliveries() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/token-of-the-path", 404, json!("a secret of the receiver's"));
    let hook = webhook(&module, "hook", &receiver, "/token-of-the-path").await;
    message(&module, &hook).await;
    settled(&module).await;
    let told = format!("{:?}", module.audit().await);
    let log = module.ask("GET", "/deliveries", None).await.text;
    let attempts = format!("{:?}", crate::support::attempts(&module).await);
    for text in [&told, &log, &attempts] {
        assert!(!text.contains("token-of-the-path") && !text.contains("a secret of"), "{text}");
    }
    assert!(told.contains("delivery.dead"), "control");
}
