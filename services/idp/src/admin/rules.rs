//! Request and response bodies of administration. Pure.

use std::fmt;

use serde_json::{Value, json};
use time::format_description::well_known::Iso8601;
use time::{Date, OffsetDateTime};
use zeroize::Zeroizing;

use crate::config::MAX_PASSWORD_BYTES;
use crate::form::Params;
use crate::login::ticket::UPDATE_PASSWORD;
use crate::pages::Lang;
use crate::users::rules::{User, is_username};

/// Default number of rows per page.
const DEFAULT_MAX: i64 = 100;
/// Most rows per page.
const LARGEST_MAX: i64 = 1_000;
/// Largest offset of a page.
const LARGEST_FIRST: i64 = 10_000_000;

/// Shortest temporary password, in bytes; it can be long because nobody has to remember it.
const TEMPORARY_MIN: usize = 12;

/// One-time codes, as Keycloak names them.
const TOTP: &str = "otp";
/// Passkeys, as Keycloak names them.
const PASSKEYS: &str = "webauthn";

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

/// Parses `true` or `false`.
pub(crate) fn flag(params: &Params, name: &str) -> Result<Option<bool>, String> {
    match params.get(name) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(format!("{name} must be true or false")),
    }
}

/// Parses a day (`2026-11-03`, its first moment in UTC) or milliseconds since 1970.
pub(crate) fn moment(params: &Params, name: &str) -> Result<Option<OffsetDateTime>, String> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let of_millis = |millis: i64| {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis).checked_mul(1_000_000)?).ok()
    };
    let moment = match text.parse::<i64>() {
        Ok(millis) => of_millis(millis),
        Err(_) => Date::parse(text, &Iso8601::DATE).ok().map(|day| day.midnight().assume_utc()),
    };
    // The database's timestamps begin in 4713 BC.
    let moment = moment.filter(|moment| moment.year() >= 0);
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
        "totp": user.has_totp,
        "disableableCredentialTypes": credential_types_of(user),
        "requiredActions": if user.must_change_password { &[UPDATE_PASSWORD][..] } else { &[] },
        "notBefore": 0,
        // Not in Keycloak: there is no self-registration here; operators create accounts, by configuration or command.
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

/// Reads `enabled` of a user representation. The other members cannot be changed here and are ignored.
pub(crate) fn enabled_of(body: &[u8]) -> Result<bool, String> {
    let body: Value = serde_json::from_slice(body).map_err(|_| "Cannot parse the JSON".to_owned())?;
    match body.get("enabled") {
        Some(Value::Bool(enabled)) => Ok(*enabled),
        Some(_) => Err("enabled must be true or false".to_owned()),
        None => Err("enabled is required; it is the only member that can be changed".to_owned()),
    }
}

/// Longest e-mail address (RFC 5321, section 4.5.3.1).
const MAX_EMAIL_BYTES: usize = 254;
/// Longest first or last name, in characters.
const MAX_NAME: usize = 100;

/// The refused member of a body, and why.
pub(crate) type Refused = (&'static str, String);

/// A user that an operator adds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewUser {
    pub(crate) username: String,
    pub(crate) email: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
    pub(crate) password: Temporary,
}

/// A password that an operator sets; its user changes it at the first login.
#[derive(PartialEq, Eq)]
pub(crate) struct Temporary(pub(crate) Zeroizing<String>);

impl fmt::Debug for Temporary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Keycloak's `UserRepresentation` with one temporary password.
pub(crate) fn new_user(body: &[u8]) -> Result<NewUser, Refused> {
    let body = object(body)?;
    let username = text(&body, "username")?.unwrap_or_default();
    if !is_username(&username) {
        let message =
            "must be 1 to 64 lower-case letters, digits, '.', '_' or '-', and begin with a letter or digit";
        return Err(("username", message.to_owned()));
    }
    if body.get("enabled").is_some_and(|enabled| *enabled != Value::Bool(true)) {
        return Err(("enabled", "must be true or left out".to_owned()));
    }
    let credentials = body.get("credentials").and_then(Value::as_array).map(Vec::as_slice);
    let Some([credential]) = credentials else {
        return Err(("credentials", "must be a list of one temporary password".to_owned()));
    };
    Ok(NewUser {
        username,
        email: email(&body)?,
        first_name: name(&body, "firstName")?,
        last_name: name(&body, "lastName")?,
        password: temporary("credentials", credential)?,
    })
}

/// Keycloak's `CredentialRepresentation` of a temporary password.
pub(crate) fn temporary_password(body: &[u8]) -> Result<Temporary, Refused> {
    temporary("value", &object(body)?)
}

/// Credential types to be removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CredentialTypes {
    /// One-time codes of an app.
    pub(crate) totp: bool,
    pub(crate) passkeys: bool,
}

/// Checks the credential types to remove: `otp`, `webauthn` or both.
pub(crate) fn credential_types(body: &[u8]) -> Result<CredentialTypes, Refused> {
    let types: Vec<String> =
        serde_json::from_slice(body).map_err(|_| ("body", "must be a JSON array of texts".to_owned()))?;
    let wanted = CredentialTypes {
        totp: types.iter().any(|name| name == TOTP),
        passkeys: types.iter().any(|name| name == PASSKEYS),
    };
    if !(1..=2).contains(&types.len()) || types.iter().any(|name| ![TOTP, PASSKEYS].contains(&name.as_str()))
    {
        return Err(("body", format!("must name {TOTP} or {PASSKEYS} or both")));
    }
    Ok(wanted)
}

/// What can be taken from a user.
fn credential_types_of(user: &User) -> Vec<&'static str> {
    let types = [(user.has_totp, TOTP), (user.has_passkey, PASSKEYS)];
    types.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
}

/// Checks the actions that an e-mail asks for: only `["UPDATE_PASSWORD"]`.
pub(crate) fn actions(body: &[u8]) -> Result<(), Refused> {
    let actions: Value =
        serde_json::from_slice(body).map_err(|_| ("body", "cannot be parsed as JSON".to_owned()))?;
    let right = json!([UPDATE_PASSWORD]);
    if actions == right { Ok(()) } else { Err(("body", format!("must be {right}"))) }
}

/// The language of an e-mail: the query parameter `lang`, English by default.
pub(crate) fn lang(params: &Params) -> Result<Lang, Refused> {
    match params.get("lang") {
        None | Some("en") => Ok(Lang::En),
        Some("de") => Ok(Lang::De),
        Some(_) => Err(("lang", "must be en or de".to_owned())),
    }
}

fn temporary(field: &'static str, credential: &Value) -> Result<Temporary, Refused> {
    let is = |name: &str, value: Value| credential.get(name) == Some(&value);
    if !is("type", json!("password")) || !is("temporary", json!(true)) {
        return Err((field, "must be a password with type \"password\" and temporary true".to_owned()));
    }
    let value = credential.get("value").and_then(Value::as_str).unwrap_or_default();
    if !(TEMPORARY_MIN..=MAX_PASSWORD_BYTES).contains(&value.len()) {
        return Err((field, format!("the password must have {TEMPORARY_MIN} to {MAX_PASSWORD_BYTES} bytes")));
    }
    Ok(Temporary(Zeroizing::new(value.to_owned())))
}

fn object(body: &[u8]) -> Result<Value, Refused> {
    let body: Option<Value> = serde_json::from_slice(body).ok().filter(Value::is_object);
    body.ok_or_else(|| ("body", "cannot be parsed as a JSON object".to_owned()))
}

fn text(body: &Value, field: &'static str) -> Result<Option<String>, Refused> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err((field, "must be a text".to_owned())),
    }
}

fn name(body: &Value, field: &'static str) -> Result<Option<String>, Refused> {
    let name = text(body, field)?.filter(|name| !name.is_empty());
    let fits = |name: &String| name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control);
    if name.as_ref().is_none_or(fits) {
        return Ok(name);
    }
    Err((field, format!("must have at most {MAX_NAME} characters and no control characters")))
}

/// Checks the length, the characters and the single `@`; the rest is up to the mail servers.
fn email(body: &Value) -> Result<Option<String>, Refused> {
    let email = text(body, "email")?.filter(|email| !email.is_empty());
    let fits = |email: &String| {
        let plain = !email.chars().any(|letter| letter.is_control() || letter.is_whitespace());
        let parts = email.split_once('@').filter(|(local, domain)| !local.is_empty() && !domain.is_empty());
        plain && email.len() <= MAX_EMAIL_BYTES && parts.is_some_and(|(_, domain)| !domain.contains('@'))
    };
    if email.as_ref().is_none_or(fits) {
        return Ok(email);
    }
    Err(("email", format!("must be an e-mail address of at most {MAX_EMAIL_BYTES} bytes")))
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
    fn a_new_user_has_limits_and_errors_that_name_the_member() {
        let body = |change: Value| {
            let mut user = json!({
                "username": "ada", "email": "ada@example.test",
                "credentials": [{ "type": "password", "value": "x".repeat(12), "temporary": true }],
            });
            for (name, value) in change.as_object().expect("an object") {
                user[name] = value.clone();
            }
            new_user(user.to_string().as_bytes())
        };
        let password = |value: &str| json!([{ "type": "password", "value": value, "temporary": true }]);
        for good in [
            json!({}),
            json!({ "username": "a".repeat(64), "email": null, "firstName": "", "enabled": true }),
            json!({ "email": format!("{}@e.test", "a".repeat(247)), "lastName": "ä".repeat(100) }),
            json!({ "credentials": password(&"x".repeat(256)) }),
        ] {
            assert!(body(good.clone()).is_ok(), "{good} {:?}", body(good.clone()));
        }
        for (field, bad) in [
            ("username", json!({ "username": "a".repeat(65) })),
            ("username", json!({ "username": "Ada" })),
            ("username", json!({ "username": 1 })),
            ("email", json!({ "email": format!("{}@e.test", "a".repeat(248)) })),
            ("email", json!({ "email": "ada" })),
            ("email", json!({ "email": "a@b@c" })),
            ("email", json!({ "email": "a b@c" })),
            ("firstName", json!({ "firstName": "ä".repeat(101) })),
            ("lastName", json!({ "lastName": "a\n" })),
            ("enabled", json!({ "enabled": false })),
            ("credentials", json!({ "credentials": [] })),
            ("credentials", json!({ "credentials": password(&"x".repeat(11)) })),
            ("credentials", json!({ "credentials": password(&"x".repeat(257)) })),
            ("credentials", json!({ "credentials": [{ "type": "password", "value": "x".repeat(12) }] })),
        ] {
            assert_eq!(body(bad.clone()).expect_err("refused").0, field, "{bad}");
        }
        assert_eq!(new_user(b"[]").expect_err("refused").0, "body");
        assert!(!format!("{:?}", body(json!({}))).contains("xxx"), "a password is never printed");
        assert!(actions(br#"["UPDATE_PASSWORD"]"#).is_ok() && actions(br#"["VERIFY_EMAIL"]"#).is_err());
        assert_eq!(lang(&params("lang=de")), Ok(Lang::De));
        assert_eq!(lang(&params("lang=fr")).expect_err("refused").0, "lang");
        let types = |body: &[u8]| credential_types(body).ok().map(|types| (types.totp, types.passkeys));
        assert_eq!(types(br#"["otp"]"#), Some((true, false)));
        assert_eq!(types(br#"["webauthn", "otp"]"#), Some((true, true)));
        for bad in [
            &b"[]"[..],
            br#"["password"]"#,
            br#"["otp", "password"]"#,
            br#"["otp", "otp", "otp"]"#,
            b"{}",
            b"[1]",
        ] {
            assert_eq!(types(bad), None);
        }
    }

    #[test]
    fn a_moment_is_a_day_or_milliseconds() {
        let day = moment(&params("dateFrom=2026-11-03"), "dateFrom");
        assert_eq!(day, Ok(Some(datetime!(2026-11-03 00:00 UTC))));
        assert!(moment(&params("dateFrom=-62167219200000"), "dateFrom").is_ok(), "the year 0");
        let millis = moment(&params("dateFrom=1500"), "dateFrom");
        assert_eq!(millis, Ok(Some(datetime!(1970-01-01 00:00:01.5 UTC))));
        for bad in [
            "dateFrom=yesterday",
            "dateFrom=2026-13-01",
            "dateFrom=9223372036854775807",
            "dateFrom=-62167219200001",
        ] {
            assert!(moment(&params(bad), "dateFrom").is_err(), "{bad}");
        }
    }
}
