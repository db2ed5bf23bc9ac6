//! E-mail to a mail server that the test runs.

use notification::{KEY, OPENAPI};
use serde_json::{Value, json};
use testkit::{Mail, ModuleApi, SmtpReceiver, Step, TestAuthority};

use crate::serve;
use crate::support::{
    attempted, attempts, be_member, channel, counted, directory, dispatch, id, jobs, know_members,
    leave_company, settled,
};

/// The default settings with this mail server.
async fn start(url: String, ca: Option<String>) -> ModuleApi {
    ModuleApi::start(KEY, OPENAPI, move |settings, listener, stop| {
        let settings = settings
            .with("PLATFORM_NOTIFICATION_SMTP_URL", url)
            .with("PLATFORM_NOTIFICATION_MAIL_FROM", "Platform <no-reply@example.com>")
            .with("PLATFORM_DOMAIN", "platform.example:8443")
            .with("PLATFORM_NOTIFICATION_SMTP_CA", ca.unwrap_or_default());
        serve(settings, listener, stop)
    })
    .await
}

async fn start_plain() -> (ModuleApi, SmtpReceiver) {
    let server = SmtpReceiver::start().await;
    (start(format!("smtp://{}?tls=none", server.address()), None).await, server)
}

fn text(mail: &Mail) -> String {
    String::from_utf8(mail.data.to_vec()).expect("ASCII")
}

fn line<'a>(mail: &'a str, name: &str) -> &'a str {
    let head = mail.split("\r\n\r\n").next().unwrap_or_default();
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

async fn publish(module: &ModuleApi, channel: &str, subject: &str, body: &str) -> String {
    let body = json!({ "channelId": channel, "subjectLine": subject, "body": body });
    id(&module.ask("POST", "/messages", Some(body)).await)
}

#[tokio::test]
async fn property_7_each_recipient_gets_a_mail_of_his_own_with_its_delivery_id() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("Team@example.com")).await;
    be_member(&module);
    let tail = format!("/channels/{team}/subscription");
    module.ask("PUT", &tail, Some(json!({ "email": "bob@example.com" }))).await;
    publish(&module, &team, "Änderung", "Grüße\n.\nzweite Zeile").await;
    let done = settled(&module).await;
    assert!(done.iter().all(|job| job["state"] == "done" && job["status"] == 250), "{done:?}");
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    for mail in &mails {
        let [to] = mail.to.as_slice() else { panic!("one recipient, not {:?}", mail.to) };
        let text = text(mail);
        let job = done.iter().find(|job| job["target"] == json!(to)).expect("its job");
        let id = job["id"].as_str().expect("an id");
        assert_eq!(line(&text, "Message-ID"), format!("<{id}@platform.example>"));
        assert_eq!(line(&text, "X-Platform-Delivery-Id"), id);
        assert_eq!(line(&text, "Auto-Submitted"), "auto-generated");
        assert_eq!(line(&text, "To"), to);
        assert!(line(&text, "From").contains("<no-reply@example.com>"));
        assert_eq!(line(&text, "Content-Type"), "text/plain; charset=utf-8");
        assert!(line(&text, "Subject").starts_with("=?utf-8?"), "{text}");
        assert!(!line(&text, "Date").is_empty());
        let other = if to == "bob@example.com" { "team@" } else { "bob@" };
        assert!(!text.to_lowercase().contains(other), "recipients never see each other");
        assert_eq!(mail.from, "no-reply@example.com");
    }
    assert_eq!(counted(&module, "email", "success").await, 2);
}

#[tokio::test]
async fn a_subject_line_that_looks_encoded_is_read_as_it_was_written() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    publish(&module, &team, "About =?utf-8?q?Re=3A?= it", "x").await;
    publish(&module, &team, "Is 1 = 1?", "x").await;
    settled(&module).await;
    let mut subjects: Vec<String> =
        server.mails().iter().map(|mail| line(&text(mail), "Subject").to_owned()).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["=?utf-8?b?QWJvdXQgPT91dGYtOD9xP1JlPTNBPz0gaXQ=?=", "Is 1 = 1?"]);
}

#[tokio::test]
async fn property_7_whatever_ends_a_line_of_the_text_a_mail_has_crlf_there_alone() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    let long = "x".repeat(1_200);
    for (body, expected) in [
        ("x\n.\nMAIL FROM:<evil@example.com>", "x\r\n.\r\nMAIL FROM:<evil@example.com>"),
        ("x\r.\rMAIL FROM:<evil@example.com>", "x\r\n.\r\nMAIL FROM:<evil@example.com>"),
        ("a\r\nb\r\r\nc\n\rd\r", "a\r\nb\r\n\r\nc\r\n\r\nd\r\n"),
    ] {
        for (encoding, more) in [("7bit", ""), ("quoted-printable", long.as_str())] {
            let count = server.mails().len();
            publish(&module, &team, "s", &format!("{body}{more}")).await;
            settled(&module).await;
            let mails = server.mails();
            assert_eq!(mails.len(), count + 1, "one message is one mail");
            let mail = text(&mails[count]);
            assert_eq!(line(&mail, "Content-Transfer-Encoding"), encoding);
            let rest = mail.replace("\r\n", "");
            assert!(!rest.contains(['\r', '\n']) && !mail.contains("=0D"), "{body:?}: {mail:?}");
            let (_, sent) = mail.split_once("\r\n\r\n").expect("a head");
            assert!(sent.starts_with(expected), "{body:?}: {sent:?}");
        }
    }
}

#[tokio::test]
async fn property_7_a_temporary_refusal_is_tried_again_with_the_same_message_id_and_date() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    server.answer(Step::Recipient, 451, "later");
    publish(&module, &team, "s", "b").await;
    attempted(&module, 1).await;
    server.behave(Step::Recipient);
    // Accepted, but the response is lost: the mail is sent a second time.
    server.answer(Step::Mail, 451, "lost");
    dispatch(&module).await;
    attempted(&module, 2).await;
    server.behave(Step::Mail);
    dispatch(&module).await;
    let done = settled(&module).await;
    assert_eq!((&done[0]["state"], &done[0]["attempts"]), (&json!("done"), &json!(3)));
    let [mail] = server.mails().try_into().expect("one mail was taken");
    let id = done[0]["id"].as_str().expect("an id");
    assert_eq!(line(&text(&mail), "Message-ID"), format!("<{id}@platform.example>"));
    let outcomes: Vec<Value> =
        attempts(&module).await.iter().map(|row| json!([row["outcome"], row["status"]])).collect();
    assert_eq!(outcomes, [json!(["retry", 451]), json!(["retry", 451]), json!(["success", 250])]);
}

#[tokio::test]
async fn property_7_a_lasting_refusal_is_dead_at_once_and_a_lost_connection_is_not() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    server.answer(Step::Recipient, 550, "no such user");
    publish(&module, &team, "s", "b").await;
    let dead = settled(&module).await;
    assert_eq!(
        (&dead[0]["state"], &dead[0]["attempts"], &dead[0]["status"]),
        (&json!("dead"), &json!(1), &json!(550))
    );
    server.behave(Step::Recipient);
    server.close(Step::Data);
    publish(&module, &team, "s", "b").await;
    let jobs =
        crate::support::until(&module, |jobs| jobs[1]["attempts"] == 1 && jobs[1]["leased"] == false).await;
    assert_eq!((&jobs[1]["state"], &jobs[1]["class"]), (&json!("pending"), &json!("smtp_connection")));
    server.behave(Step::Data);
    dispatch(&module).await;
    assert_eq!(settled(&module).await[1]["state"], "done");
}

#[tokio::test]
async fn a_connection_carries_several_mails() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    for number in 0..6 {
        publish(&module, &team, &format!("Mail {number}"), "b").await;
        settled(&module).await;
    }
    let hellos = server.commands().iter().filter(|command| command.starts_with("EHLO")).count();
    assert_eq!((server.mails().len(), hellos), (6, 1), "{:?}", server.commands());
}

#[tokio::test]
async fn tls_is_verified_and_a_login_goes_over_it_alone() {
    let authority = TestAuthority::new();
    let server = SmtpReceiver::start_tls(authority.server(&["127.0.0.1"])).await;
    server.require_login("me@example.com", "pass/word");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ca = folder.join(format!("ca-{}.pem", server.address().port()));
    tokio::fs::write(&ca, authority.pem()).await.expect("a file");
    let url = format!("smtp://me%40example.com:pass%2Fword@{}", server.address());
    let module = start(url.clone(), Some(ca.display().to_string())).await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    publish(&module, &team, "s", "b").await;
    assert_eq!(settled(&module).await[0]["state"], "done");
    let mail = server.mails().pop().expect("a mail");
    assert!(mail.tls, "STARTTLS came first");
    assert_eq!(mail.login, Some(("me@example.com".to_owned(), "pass/word".to_owned())));

    let stranger = start(url, None).await;
    let team = channel(&stranger, "team", "email", Some("team@example.com")).await;
    publish(&stranger, &team, "s", "b").await;
    attempted(&stranger, 1).await;
    assert_eq!(server.mails().len(), 1, "an authority that is not trusted gets no mail");

    let plain = SmtpReceiver::start().await;
    let strict = start(format!("smtp://{}", plain.address()), None).await;
    let team = channel(&strict, "team", "email", Some("team@example.com")).await;
    publish(&strict, &team, "s", "b").await;
    attempted(&strict, 1).await;
    assert!(plain.mails().is_empty(), "without STARTTLS nothing is sent");
}

#[tokio::test]
async fn a_login_that_is_refused_waits_for_the_operator() {
    let authority = TestAuthority::new();
    let server = SmtpReceiver::start_tls(authority.server(&["127.0.0.1"])).await;
    server.require_login("me", "right");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ca = folder.join(format!("ca-{}.pem", server.address().port()));
    tokio::fs::write(&ca, authority.pem()).await.expect("a file");
    let url = format!("smtp://me:wrong@{}", server.address());
    let module = start(url, Some(ca.display().to_string())).await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    publish(&module, &team, "s", "b").await;
    let found = attempted(&module, 1).await;
    assert_eq!(
        (&found[0]["state"], &found[0]["class"]),
        (&json!("pending"), &json!("smtp_login")),
        "{found:?}"
    );
}

#[tokio::test]
async fn without_a_mail_server_mail_waits() {
    let module = crate::start().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    publish(&module, &team, "s", "b").await;
    let found = attempted(&module, 1).await;
    assert_eq!((&found[0]["state"], &found[0]["class"]), (&json!("pending"), &json!("smtp_not_configured")));
    assert_eq!(jobs(&module).await.len(), 1);
}

#[tokio::test]
async fn a_member_who_left_the_company_gets_no_mail_of_a_subscription_any_more() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    let app = channel(&module, "app", "in_app", None).await;
    let mut members = Vec::new();
    for (channel, email) in [
        (&app, "inactive@example.com"),
        (&app, "unknown@example.com"),
        (&app, "Shared@example.com"),
        (&app, "shared@example.com"),
        (&team, "team@example.com"),
    ] {
        members.push(be_member(&module));
        let tail = format!("/channels/{channel}/subscription");
        assert_eq!(module.ask("PUT", &tail, Some(json!({ "email": email }))).await.status, 200);
    }
    // One subscriber shares an address and stays; the channel's own address has no subscriber.
    let left = vec![members[0], members[1], members[2], members[4]];
    leave_company(&module, left);
    publish(&module, &app, "s", "b").await;
    publish(&module, &team, "s", "b").await;
    let ends = settled(&module).await;
    let end = |target: &str| {
        let job = ends.iter().find(|job| job["target"] == target).expect("its job");
        json!([job["state"], job["class"]])
    };
    assert_eq!(end("inactive@example.com"), json!(["dead", "member_left"]));
    assert_eq!(end("unknown@example.com"), json!(["dead", "member_left"]));
    assert_eq!(end("shared@example.com"), json!(["done", null]));
    assert_eq!(end("team@example.com"), json!(["done", null]));
    assert_eq!(server.mails().len(), 2);
    assert_eq!(counted(&module, "email", "dead").await, 0, "nothing was tried");
    module.org.close("POST", &format!("/internal/org/companies/{}/lookup", module.company));
    publish(&module, &app, "s", "b").await;
    let waits = attempted_again(&module).await;
    assert!(
        waits.iter().all(|job| job["class"] == "org_unavailable"),
        "without org's answer it waits: {waits:?}"
    );
}

/// A row that has lost its login or has another one, and a login whose account is suspended, get no mail.
#[tokio::test]
async fn a_subscription_is_the_logins_that_set_it() {
    let (module, server) = start_plain().await;
    let app = channel(&module, "app", "in_app", None).await;
    be_member(&module);
    let tail = format!("/channels/{app}/subscription");
    assert_eq!(module.ask("PUT", &tail, Some(json!({ "email": "me@example.com" }))).await.status, 200);
    let end = async || {
        publish(&module, &app, "s", "b").await;
        let ends = settled(&module).await;
        let last = ends.last().expect("a job").clone();
        json!([last["state"], last["class"]])
    };
    assert_eq!(end().await, json!(["done", null]), "control");
    for login in [None, Some("another-login")] {
        know_members(&module, Vec::new(), login);
        assert_eq!(end().await, json!(["dead", "member_left"]), "{login:?}");
    }
    be_member(&module);
    assert_eq!(end().await, json!(["done", null]), "the login is back");
    let suspended =
        json!({ "data": { "held": false, "reason": "USER_LIFECYCLE_DISABLED", "evidence": null } });
    module.authz.answer("GET", &directory(&module), 200, suspended);
    assert_eq!(end().await, json!(["dead", "member_left"]));
    assert_eq!(server.mails().len(), 2);
    module.authz.close("GET", &directory(&module));
    publish(&module, &app, "s", "b").await;
    let waits = attempted_again(&module).await;
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0]["class"], "authz_unavailable");
}

/// A mail that waits is not sent to an address that its subscriber has left; the channel's own address stays.
#[tokio::test]
async fn a_waiting_mail_ends_with_the_subscription() {
    let (module, server) = start_plain().await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    be_member(&module);
    let tail = format!("/channels/{team}/subscription");
    let subscribe = async |email: Value| {
        assert_eq!(module.ask("PUT", &tail, Some(json!({ "email": email }))).await.status, 200);
    };
    subscribe(json!("old@example.com")).await;
    server.answer(Step::Recipient, 451, "later");
    publish(&module, &team, "s", "b").await;
    assert_eq!(attempted_again(&module).await.len(), 2, "both wait");
    subscribe(json!("new@example.com")).await;
    server.behave(Step::Recipient);
    dispatch(&module).await;
    let ends = settled(&module).await;
    let end = |target: &str| {
        let job = ends.iter().find(|job| job["target"] == target).expect("its job");
        json!([job["state"], job["class"]])
    };
    assert_eq!(end("old@example.com"), json!(["dead", "unsubscribed"]));
    assert_eq!(end("team@example.com"), json!(["done", null]));
    let to: Vec<String> = server.mails().into_iter().flat_map(|mail| mail.to).collect();
    assert_eq!(to, ["team@example.com"]);
}

/// Returns the jobs that wait for another attempt, once each has had its first.
async fn attempted_again(module: &ModuleApi) -> Vec<Value> {
    let all = crate::support::until(module, |jobs| {
        jobs.iter().all(|job| job["state"] != "pending" || (job["attempts"] == 1 && job["leased"] == false))
    });
    all.await.into_iter().filter(|job| job["state"] == "pending").collect()
}
