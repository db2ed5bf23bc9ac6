//! The look at all accounts, in portions: first the provider's list, page by page, each page compared and stored at once; then
//! the subjects that are known here and stood in no page, in their order, each of them asked about by its id. It takes minutes
//! beside a million accounts, and the quick looks go on meanwhile. What it keeps is where it is and a number for each account
//! that it saw.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use service::ApiError;
use service::workers::{Next, Step};
use tokio::time::Instant;

use super::findings::{Findings, Known};
use super::{ask, settle, store};
use crate::App;
use crate::provider::PAGE;
use crate::provision::rules::AccountState;

/// Known subjects that are settled at a time.
const PORTION: i64 = 1_000;

/// Looks at all accounts again and again.
pub(super) struct FullLooks {
    pub(super) app: App,
    pub(super) interval: Duration,
    pub(super) under_way: Option<FullLook>,
}

impl Step for FullLooks {
    type Error = ApiError;

    /// One portion; one that failed is asked for again.
    async fn step(&mut self) -> Result<Next, ApiError> {
        let look = self.under_way.get_or_insert_with(FullLook::begin);
        if !look.advance(&self.app).await? {
            return Ok(Next::In(Duration::ZERO));
        }
        tracing::info!(
            changed = look.changed,
            accounts = look.listed,
            took = ?look.begun.elapsed(),
            "looked at all accounts of the identity provider"
        );
        self.under_way = None;
        Ok(Next::In(self.interval))
    }
}

/// One look at all accounts, and how far it is.
pub(super) struct FullLook {
    begun: Instant,
    /// How many accounts the pages so far had.
    listed: usize,
    is_listed: bool,
    seen: Seen,
    /// The subject up to which all are settled.
    settled: String,
    pub(super) changed: usize,
}

impl FullLook {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            listed: 0,
            is_listed: false,
            seen: Seen::default(),
            settled: String::new(),
            changed: 0,
        }
    }

    /// One portion; true when it was the last, with which the time of the look is stored.
    pub(super) async fn advance(&mut self, app: &App) -> Result<bool, ApiError> {
        if self.is_listed {
            self.settle_portion(app).await
        } else {
            self.list_page(app).await.map(|()| false)
        }
    }

    async fn list_page(&mut self, app: &App) -> Result<(), ApiError> {
        let asked = Instant::now();
        let page = app.provider.accounts_after(self.listed).await?;
        let (mut findings, rows) = (Findings::default(), page.len());
        for account in page {
            self.seen.add(&account.id);
            let state = AccountState::of(Some(&account));
            findings.note(account.id, state);
        }
        self.changed += settle(app, &findings, asked.elapsed(), None).await?;
        self.listed += rows;
        self.is_listed = rows < PAGE;
        Ok(())
    }

    /// Who stood in no page is asked about, unless long gone: a page can shift under an account while the list is read, and no
    /// list has the service accounts.
    async fn settle_portion(&mut self, app: &App) -> Result<bool, ApiError> {
        let asked = Instant::now();
        let known = store::known_after(&app.core.pool, &self.settled, PORTION).await?;
        let is_last = i64::try_from(known.len()).unwrap_or(i64::MAX) < PORTION;
        let last = known.last().map(|known| known.subject.clone());
        let is_open =
            |known: &Known| !self.seen.has(&known.subject) && (known.is_service || !known.state.is_gone());
        let unsettled = known.into_iter().filter(is_open).map(|known| known.subject).collect();
        let mut findings = Findings::default();
        ask::ask_each(app, unsettled, &mut findings).await?;
        let look = is_last.then(|| self.begun.elapsed());
        self.changed += settle(app, &findings, asked.elapsed(), look).await?;
        self.settled = last.unwrap_or_default();
        Ok(is_last)
    }
}

/// Who was seen, as numbers of 128 bits: a million take some 40 MB less than their names.
#[derive(Default)]
struct Seen {
    numbers: HashSet<[u64; 2]>,
    hashers: [RandomState; 2],
}

impl Seen {
    fn number(&self, subject: &str) -> [u64; 2] {
        let [one, other] = &self.hashers;
        [one.hash_one(subject), other.hash_one(subject)]
    }

    fn add(&mut self, subject: &str) {
        self.numbers.insert(self.number(subject));
    }

    fn has(&self, subject: &str) -> bool {
        self.numbers.contains(&self.number(subject))
    }
}
