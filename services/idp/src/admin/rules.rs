//! What administration requests may say, and the shapes they are answered with. Pure.

use serde_json::{Value, json};
use time::format_description::well_known::Iso8601;
use time::{Date, OffsetDateTime};

use crate::form::Params;
use crate::users::rules::User;

/// Rows of one page when the request does not say.
const DEFAULT_MAX: i64 = 100;
/// Most rows of one page.
const LARGEST_MAX: i64 = 1_000;
/// Farthest row a page may begin at.
const LARGEST_FIRST: i64 = 10_000_000;

/// `first` and `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: i64,
    pub(crate) max: i64,
}

impl Window {
    pub(crate) fn parse(params: &Params) -> Result<Self, String> {
        let first = number(params, "first", LARGEST_FIRST)?.unwrap_or(0);
        let max = number(params, "max", LARGEST_MAX)?.unwrap_or(DEFAULT_MAX);
        Ok(Self { first, max })
    }
}

/// `true` or `false`.
pub(crate) fn flag(params: &Params, name: &str) -> Result<Option<bool>, String> {
    match params.get(name) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(format!("{name} must be true or false")),
    }
}

/// A day (`2026-11-03`, its first moment in UTC) or milliseconds since 1970.
pub(crate) fn moment(params: &Params, name: &str) -> Result<Option<OffsetDateTime>, String> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let of_millis = |millis: i64| {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis).checked_mul(1_000_000)?).ok()
    };
    let moment = match text.parse::<i64>() {
        Ok(millis) => of_millis(millis),
        Err(_) => Date::parse(text, &Iso8601::DATE).ok().map(|day| day.midnight().assume_utc()),
    };
    moment.map(Some).ok_or_else(|| format!("{name} must be a day (2026-11-03) or milliseconds since 1970"))
}

/// A user as Keycloak shows it.
pub(crate) fn user(user: &User) -> Value {
    let mut shown = json!({
        "id": user.id,
        "username": user.username,
        "emailVerified": user.email.is_some(),
        "createdTimestamp": millis(user.created_at),
        "enabled": user.enabled,
        "totp": false,
        "disableableCredentialTypes": [],
        "requiredActions": [],
        "notBefore": 0,
        // Not of Keycloak: nobody registers here, so an account is as old as the operator's configuration.
        "madeByOperator": true,
    });
    let texts = [
        ("firstName", &user.first_name),
        ("lastName", &user.last_name),
        ("email", &user.email),
        ("serviceAccountClientId", &user.service_client),
    ];
    if let Value::Object(members) = &mut shown {
        for (name, text) in texts {
            if let Some(text) = text {
                members.insert(name.to_owned(), json!(text));
            }
        }
    }
    shown
}

/// `enabled` of a user that is sent back changed. The other members are shown as they are and cannot be changed here.
pub(crate) fn enabled_of(body: &[u8]) -> Result<bool, String> {
    let body: Value = serde_json::from_slice(body).map_err(|_| "Cannot parse the JSON".to_owned())?;
    match body.get("enabled") {
        Some(Value::Bool(enabled)) => Ok(*enabled),
        Some(_) => Err("enabled must be true or false".to_owned()),
        None => Err("enabled is required; it is the one member that can be changed".to_owned()),
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(moment: OffsetDateTime) -> i64 {
    i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

fn number(params: &Params, name: &str, largest: i64) -> Result<Option<i64>, String> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let number = text.parse::<i64>().ok().filter(|number| (0..=largest).contains(number));
    number.map(Some).ok_or_else(|| format!("{name} must be a whole number from 0 to {largest}"))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn params(query: &str) -> Params {
        Params::of_query(Some(query)).expect("a query")
    }

    #[test]
    fn a_window_has_limits() {
        assert_eq!(Window::parse(&params("")), Ok(Window { first: 0, max: 100 }));
        assert_eq!(Window::parse(&params("first=5&max=1000")), Ok(Window { first: 5, max: 1_000 }));
        for bad in ["max=1001", "max=-1", "first=x", "first=99999999999999999999"] {
            assert!(Window::parse(&params(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_moment_is_a_day_or_milliseconds() {
        let day = moment(&params("dateFrom=2026-11-03"), "dateFrom");
        assert_eq!(day, Ok(Some(datetime!(2026-11-03 00:00 UTC))));
        let millis = moment(&params("dateFrom=1500"), "dateFrom");
        assert_eq!(millis, Ok(Some(datetime!(1970-01-01 00:00:01.5 UTC))));
        for bad in ["dateFrom=yesterday", "dateFrom=2026-13-01", "dateFrom=9223372036854775807"] {
            assert!(moment(&params(bad), "dateFrom").is_err(), "{bad}");
        }
    }
}
