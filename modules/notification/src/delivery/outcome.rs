//! What an attempt means for its job: done, retried, or dead. Pure.

use std::time::Duration;

use http::HeaderMap;
use http::StatusCode;
use http::header::RETRY_AFTER;
use service::outbound::{OutboundAnswer, OutboundError};
use service::workers::{Broken, Verdict};
use time::OffsetDateTime;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict for the queue.
    pub verdict: Verdict,
    /// The status code of the response, if there was one.
    pub status: Option<u16>,
    /// A stable word for what went wrong, never a part of the response.
    pub class: Option<&'static str>,
}

impl Outcome {
    /// The delivery arrived.
    #[must_use]
    pub const fn done(status: Option<u16>) -> Self {
        Self { verdict: Verdict::Done, status, class: None }
    }

    /// The delivery is retried.
    #[must_use]
    pub const fn again(status: Option<u16>, class: &'static str) -> Self {
        Self { verdict: Verdict::Retry { asked: None }, status, class: Some(class) }
    }

    /// The delivery is postponed, which does not count as an attempt.
    #[must_use]
    pub const fn later(after: Duration, class: &'static str) -> Self {
        Self { verdict: Verdict::Later { after }, status: None, class: Some(class) }
    }

    /// The delivery is given up.
    #[must_use]
    pub const fn dead(status: Option<u16>, class: &'static str) -> Self {
        Self { verdict: Verdict::Dead, status, class: Some(class) }
    }
}

/// The channel is deleted, and its jobs with it.
pub const CHANNEL_DELETED: &str = "channel_deleted";
/// The channel is disabled: pending jobs are delivered when it is enabled again.
pub const CHANNEL_DISABLED: &str = "channel_disabled";
/// The company does not use the module: it is not active, or the module is disabled.
pub const NOT_IN_USE: &str = "not_in_use";
/// Those who subscribed with this address have left the company, or their accounts are suspended.
pub const MEMBER_LEFT: &str = "member_left";
/// The address is no longer the channel's or a subscriber's.
pub const UNSUBSCRIBED: &str = "unsubscribed";
/// org cannot say whether they have left.
pub const ORG_UNAVAILABLE: &str = "org_unavailable";
/// authz cannot say whether the company uses the module, or whether the subscribers' accounts are suspended.
pub const AUTHZ_UNAVAILABLE: &str = "authz_unavailable";
/// The receiver is gone for good, so its channel is disabled.
pub const GONE: &str = "gone";
/// An internal error of the platform.
pub const INTERNAL: &str = "internal";
/// The signing secret is missing or cannot be opened.
pub const SECRET_UNAVAILABLE: &str = "secret_unavailable";
/// No mail server is configured; mail is retried.
pub const SMTP_NOT_CONFIGURED: &str = "smtp_not_configured";
/// The mail server refused the platform's login.
pub const SMTP_LOGIN: &str = "smtp_login";
/// The mail server cannot be reached.
pub const SMTP_CONNECTION: &str = "smtp_connection";
/// The mail server takes no further connection at the moment, or all that it is given are in use.
pub const SMTP_BUSY: &str = "smtp_busy";
/// The mail server did not answer in time.
pub const SMTP_TIMEOUT: &str = "smtp_timeout";

/// Whether a delivery failed because of the platform or its mail server, which says nothing about its channel.
#[must_use]
pub fn is_the_platforms(class: &str) -> bool {
    const BROKEN: [&str; 2] = [Broken::Panic.as_str(), Broken::LeaseLost.as_str()];
    const OWN: [&str; 11] = [
        INTERNAL,
        MEMBER_LEFT,
        UNSUBSCRIBED,
        ORG_UNAVAILABLE,
        AUTHZ_UNAVAILABLE,
        SECRET_UNAVAILABLE,
        SMTP_NOT_CONFIGURED,
        SMTP_BUSY,
        SMTP_LOGIN,
        SMTP_CONNECTION,
        SMTP_TIMEOUT,
    ];
    BROKEN.contains(&class) || OWN.contains(&class)
}

/// Classifies a receiver's response or its absence.
#[must_use]
pub fn of_webhook(sent: Result<&OutboundAnswer, &OutboundError>, now: OffsetDateTime) -> Outcome {
    match sent {
        Ok(answer) => of_status(answer.status, &answer.headers, now),
        Err(error) if error.kind().is_transient() => Outcome::again(None, error.kind().word()),
        Err(error) => Outcome::dead(None, error.kind().word()),
    }
}

fn of_status(status: StatusCode, headers: &HeaderMap, now: OffsetDateTime) -> Outcome {
    let code = Some(status.as_u16());
    match status.as_u16() {
        200..=299 => Outcome::done(code),
        408 | 425 | 500..=599 | 429 => {
            let waits = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            let asked = waits.then(|| retry_after(headers, now)).flatten();
            Outcome { verdict: Verdict::Retry { asked }, status: code, class: Some("http_status") }
        }
        // Redirects are never followed: only the checked address is called.
        300..=399 => Outcome::dead(code, "redirect"),
        410 => Outcome::dead(code, GONE),
        _ => Outcome::dead(code, "http_status"),
    }
}

/// The delay that `Retry-After` asks for, given in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number of seconds that does not fit is as good as the largest: the ladder caps both.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let moment = OffsetDateTime::from(httpdate::parse_http_date(text).ok()?);
    Duration::try_from(moment - now).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn outcome(status: u16, retry_after: Option<&'static str>) -> Outcome {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(value));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        of_status(status, &headers, OffsetDateTime::from_unix_timestamp(NOW).expect("a moment"))
    }

    #[test]
    fn each_status_is_done_tried_again_or_dead() {
        for status in [200, 201, 204, 299] {
            assert_eq!(outcome(status, None), Outcome::done(Some(status)));
        }
        for status in [408, 425, 429, 500, 502, 503, 599] {
            assert_eq!(outcome(status, None), Outcome::again(Some(status), "http_status"));
        }
        for status in [301, 302, 304, 307] {
            assert_eq!(outcome(status, None), Outcome::dead(Some(status), "redirect"));
        }
        for status in [400, 401, 404, 407, 409, 413, 451] {
            assert_eq!(outcome(status, None), Outcome::dead(Some(status), "http_status"));
        }
        assert_eq!(outcome(410, None), Outcome::dead(Some(410), GONE));
    }

    #[test]
    fn only_429_and_503_say_when_to_come_back() {
        let asked = |status, value| match outcome(status, Some(value)).verdict {
            Verdict::Retry { asked } => asked,
            other @ (Verdict::Done | Verdict::Later { .. } | Verdict::Dead) => panic!("{other:?}"),
        };
        assert_eq!(asked(429, "3600"), Some(Duration::from_hours(1)));
        assert_eq!(asked(503, " 7 "), Some(Duration::from_secs(7)));
        // 2023-11-14T22:13:20Z is NOW.
        assert_eq!(asked(429, "Tue, 14 Nov 2023 22:14:20 GMT"), Some(Duration::from_mins(1)));
        assert_eq!(asked(429, "Tue, 14 Nov 2023 22:12:20 GMT"), None, "a moment that is over");
        let most = Some(Duration::from_secs(u64::MAX));
        for many in ["18446744073709551615", "18446744073709551616", "9999999999999999999999999"] {
            assert_eq!(asked(429, many), most, "{many}");
        }
        for bad in ["soon", "-5", "+5", "1.5", ""] {
            assert_eq!(asked(429, bad), None, "{bad}");
        }
        assert_eq!(asked(500, "3600"), None);
    }
}
