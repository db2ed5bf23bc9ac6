//! The module's variables.

use std::time::Duration;

use notification::Config;
use testkit::TokenIssuer;

/// A sealing key.
const SEALING_KEY: &str = "_____wQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

/// The problems of the default settings with these changes.
async fn problem(changes: &[(&str, &str)]) -> String {
    let (database, issuer) = (testkit::empty_database().await, TokenIssuer::start().await);
    let settings = testkit::settings("notification", &database, &issuer);
    let settings = changes.iter().fold(settings, |all, (name, value)| all.with(*name, *value));
    Config::read(&settings).map_or_else(|problems| problems.to_string(), |_| String::new())
}

const FROM: (&str, &str) = ("PLATFORM_NOTIFICATION_MAIL_FROM", "Platform <no-reply@example.com>");
const URL: (&str, &str) = ("PLATFORM_NOTIFICATION_SMTP_URL", "smtps://me:word@mail.example.com");

#[tokio::test]
async fn good_values_at_their_limits_are_taken() {
    for good in [
        vec![],
        vec![FROM, URL],
        vec![("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0")],
        vec![("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0,1, 86400")],
        vec![("PLATFORM_NOTIFICATION_CONCURRENCY", "1024")],
        vec![("PLATFORM_NOTIFICATION_CLAIM_GROUP", "blue-2_x")],
        vec![
            ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP", "true"),
            ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS", "10.0.0.0/8,::1"),
        ],
        vec![("PLATFORM_NOTIFICATION_RECOUNT_INTERVAL", "1h")],
        vec![("PLATFORM_SEALING_KEYS", ""), ("PLATFORM_NOTIFICATION_SECRET_KEY", SEALING_KEY)],
    ] {
        assert_eq!(problem(&good).await, "", "{good:?}");
    }
}

#[tokio::test]
async fn every_bad_value_is_refused_by_its_name() {
    let hundred_and_one = vec!["1"; 101].join(",");
    for (bad, expected) in [
        (
            vec![("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0,x")],
            "PLATFORM_NOTIFICATION_RETRY_SECONDS: \"0,x\" is not",
        ),
        (vec![("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0,86401")], "PLATFORM_NOTIFICATION_RETRY_SECONDS: "),
        (
            vec![("PLATFORM_NOTIFICATION_RETRY_SECONDS", &hundred_and_one)],
            "PLATFORM_NOTIFICATION_RETRY_SECONDS: ",
        ),
        (vec![("PLATFORM_NOTIFICATION_CONCURRENCY", "0")], "PLATFORM_NOTIFICATION_CONCURRENCY: \"0\" is not"),
        (
            vec![("PLATFORM_NOTIFICATION_CONCURRENCY", "1025")],
            "PLATFORM_NOTIFICATION_CONCURRENCY: 1025 is more than 1024",
        ),
        (
            vec![("PLATFORM_NOTIFICATION_CLAIM_GROUP", "a b")],
            "PLATFORM_NOTIFICATION_CLAIM_GROUP: \"a b\" is not",
        ),
        (
            vec![("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP", "yes")],
            "PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP: \"yes\"",
        ),
        (
            vec![("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS", "10.0.0.1/8")],
            "PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS: \"10.0.0.1/8\"",
        ),
        (
            vec![("PLATFORM_NOTIFICATION_RECOUNT_INTERVAL", "999ms")],
            "PLATFORM_NOTIFICATION_RECOUNT_INTERVAL: 999ms is not between",
        ),
        (
            vec![("PLATFORM_NOTIFICATION_MAIL_FROM", "nobody")],
            "PLATFORM_NOTIFICATION_MAIL_FROM: \"nobody\" is not",
        ),
        (vec![URL], "PLATFORM_NOTIFICATION_MAIL_FROM: is required"),
        (
            vec![FROM, ("PLATFORM_NOTIFICATION_SMTP_URL", "mail.example.com")],
            "PLATFORM_NOTIFICATION_SMTP_URL: is not a URL",
        ),
        (
            vec![FROM, ("PLATFORM_NOTIFICATION_SMTP_URL", "smtp://me:word@x?tls=none")],
            "PLATFORM_NOTIFICATION_SMTP_URL: would send the password",
        ),
        (
            vec![FROM, URL, ("PLATFORM_NOTIFICATION_SMTP_CA", "/nowhere.pem")],
            "PLATFORM_NOTIFICATION_SMTP_CA: \"/nowhere.pem\"",
        ),
        (
            vec![("PLATFORM_NOTIFICATION_SECRET_KEY", "short")],
            "PLATFORM_NOTIFICATION_SECRET_KEY: key 1 is not 32 bytes",
        ),
        (vec![("PLATFORM_SEALING_KEYS", "")], "PLATFORM_SEALING_KEYS: is required"),
    ] {
        let found = problem(&bad).await;
        assert!(found.starts_with(expected), "{bad:?}: {found}");
        assert!(!found.contains("me:word"), "a password is never shown: {found}");
    }
}

#[tokio::test]
async fn the_usual_ladder_has_ten_attempts_over_three_days() {
    let (database, issuer) = (testkit::empty_database().await, TokenIssuer::start().await);
    let settings = testkit::settings("notification", &database, &issuer);
    let config = Config::read(&settings).expect("read");
    let ladder = &config.own.ladder.ladder;
    let waits: Duration = (1..10).filter_map(|attempt| ladder.after(attempt, None, 200)).sum();
    assert_eq!((ladder.attempts(), waits), (10, Duration::from_secs(272_105)));
    assert_eq!(config.own.claim_group, "default");
    assert!(
        config.own.mail.is_none()
            && !config.own.outbound.allow_http
            && config.own.outbound.allowed.is_empty()
    );
}
