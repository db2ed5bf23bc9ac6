//! Logs the demo's users in through the provider's form, which makes them known to the platform.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::Settings;
use contract::settings::split_list;
use serde_json::Value;

use super::api::{Api, text};
use super::bar::Bar;
use super::cast::{ADMINISTRATOR, LOGINS, Member};
use crate::plan::UpConfig;
use crate::stop::Stop;
use crate::token::Provider;

/// A user who has logged in.
pub(super) struct Person {
    pub(super) login: String,
    pub(super) subject: String,
    pub(super) api: Api,
}

/// All users who have logged in.
pub(super) struct People {
    pub(super) administrator: Person,
    others: Vec<Person>,
}

/// Steps of [`People::log_in`].
pub(super) const STEPS: usize = 1 + LOGINS.len();

impl People {
    /// Logs every user in.
    pub(super) async fn log_in(settings: &Settings, config: &UpConfig, bar: &mut Bar) -> Result<Self, Stop> {
        bar.stage("logging in");
        let administrator = person(&administrator(settings), settings, config, bar).await?;
        let mut others = Vec::new();
        for login in LOGINS {
            others.push(person(login, settings, config, bar).await?);
        }
        Ok(Self { administrator, others })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Person> {
        std::iter::once(&self.administrator).chain(&self.others)
    }

    pub(super) fn named(&self, login: &str) -> Result<&Person, Stop> {
        let found = self.others.iter().find(|person| person.login == login);
        found.ok_or_else(|| Stop::Failed(format!("{login} has not logged in")))
    }

    /// The subject that a member is linked to.
    pub(super) fn subject_of(&self, member: &Member) -> Option<&str> {
        if member.code == ADMINISTRATOR {
            return Some(&self.administrator.subject);
        }
        let found = self.others.iter().find(|person| Some(person.login.as_str()) == member.login);
        found.map(|person| person.subject.as_str())
    }
}

/// The first superadmin, as `up` reads it.
fn administrator(settings: &Settings) -> String {
    let listed = split_list(settings.raw("PLATFORM_SUPERADMINS").unwrap_or_default());
    listed.into_iter().next().unwrap_or_else(|| "admin".to_owned())
}

async fn person(login: &str, settings: &Settings, config: &UpConfig, bar: &mut Bar) -> Result<Person, Stop> {
    let provider = Provider::behind_edge(config)?;
    let token = provider.log_in(login, settings).await?;
    let subject = subject(&token)?;
    let api = Api { client: provider.client, base: provider.base, token };
    // The first request of a subject makes it known to the platform; only then can it be linked.
    api.get("/api/org/me/companies").await?;
    bar.step(false);
    Ok(Person { login: login.to_owned(), subject, api })
}

/// Returns the token's subject, unverified: the platform verifies the token.
fn subject(token: &str) -> Result<String, Stop> {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Value = claims.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let subject = text(&claims, "sub");
    if subject.is_empty() { Err(Stop::Failed("the token has no subject".to_owned())) } else { Ok(subject) }
}
