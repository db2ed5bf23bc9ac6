//! Whether a company uses the module: the company is active and the module enabled. authz says so, once in a few seconds
//! for each company, however many deliveries there are. A no is asked for again by every delivery that comes later:
//! deliveries that are dispatched just after the module was enabled must not wait on an old one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::CorrelationId;
use contract::id::CompanyId;
use service::clients::authz::AuthzClient;
use tokio::time::Instant;

use crate::KEY;

/// How long an answer other than no is used: deliveries go on for at most as long after the module is disabled.
const FRESH: Duration = Duration::from_secs(5);
/// Most companies whose answers are remembered; past this all are forgotten and asked for again.
const MAX_COMPANIES: usize = 10_000;

/// Whether a company uses the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Yes,
    No,
    /// authz does not answer.
    Unknown,
}

/// One question at a time for each company, and when the last one was asked; those who wait for it use its answer.
type Answer = Arc<tokio::sync::Mutex<Option<(Use, Instant)>>>;

/// The answers of authz.
pub(super) struct Uses {
    authz: AuthzClient,
    answers: Mutex<HashMap<CompanyId, Answer>>,
}

impl Uses {
    pub(super) fn new(authz: AuthzClient) -> Self {
        Self { authz, answers: Mutex::default() }
    }

    /// Whether the company uses the module, or did a few seconds ago.
    pub(super) async fn of(&self, company: CompanyId) -> Use {
        let begun = Instant::now();
        let answer = self.answer(company);
        let mut answer = answer.lock().await;
        if let Some((known, asked_at)) = *answer
            && (asked_at >= begun || (known != Use::No && asked_at.elapsed() < FRESH))
        {
            return known;
        }
        let asked_at = Instant::now();
        let asked = self.ask(company).await;
        *answer = Some((asked, asked_at));
        asked
    }

    fn answer(&self, company: CompanyId) -> Answer {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_COMPANIES && !answers.contains_key(&company) {
            answers.clear();
        }
        Arc::clone(answers.entry(company).or_default())
    }

    async fn ask(&self, company: CompanyId) -> Use {
        match self.authz.is_in_use(company, KEY, &CorrelationId::generate()).await {
            Ok(true) => Use::Yes,
            Ok(false) => Use::No,
            Err(error) => {
                tracing::warn!(%company, ?error, "cannot determine whether a company uses the module; its deliveries wait");
                Use::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use service::inside::Inside;

    use super::*;

    #[test]
    fn a_bounded_number_of_companies_is_remembered() {
        let uses = Uses::new(AuthzClient::new("http://127.0.0.1:1", &Inside::default()));
        let company =
            |number: usize| CompanyId::from(uuid::Uuid::from_u128(u128::try_from(number).expect("small")));
        for number in 0..MAX_COMPANIES {
            uses.answer(company(number));
        }
        uses.answer(company(0));
        let remembered = || uses.answers.lock().expect("no panic").len();
        assert_eq!(remembered(), MAX_COMPANIES);
        uses.answer(company(MAX_COMPANIES));
        assert_eq!(remembered(), 1);
    }
}
