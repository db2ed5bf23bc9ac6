//! The full look at all accounts, in portions. It first reads the provider's list page by page, and compares and stores
//! each page at once; then it requests by id each subject that is known here but was on no page, in order. With a
//! million accounts it takes minutes, while the quick looks continue. It keeps only its position and a number for each
//! account seen.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use service::ApiError;
use service::workers::{Next, Step};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::findings::{Findings, Known};
use super::{Whole, ask, settle, store};
use crate::App;
use crate::provider::PAGE;
use crate::provision::rules::AccountState;

/// Number of known subjects settled per step.
const PORTION: i64 = 1_000;

/// The worker that runs full looks.
pub(super) struct FullLooks {
    pub(super) app: App,
    pub(super) interval: Duration,
    pub(super) under_way: Option<FullLook>,
}

impl Step for FullLooks {
    type Error = ApiError;

    /// Runs one portion; a failed portion is repeated.
    async fn step(&mut self) -> Result<Next, ApiError> {
        let look = match self.under_way.take() {
            Some(look) => look,
            None => FullLook::begin(store::last(&self.app.core.pool).await?),
        };
        let look = self.under_way.insert(look);
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

/// One full look and its progress.
pub(super) struct FullLook {
    begun: Instant,
    /// The stored time of the last look before this one.
    seen_last: Option<OffsetDateTime>,
    /// Number of accounts on the pages so far.
    listed: usize,
    is_listed: bool,
    seen: Seen,
    /// All subjects up to this one are settled.
    settled: String,
    pub(super) changed: usize,
}

impl FullLook {
    pub(super) fn begin(seen_last: Option<OffsetDateTime>) -> Self {
        Self {
            begun: Instant::now(),
            seen_last,
            listed: 0,
            is_listed: false,
            seen: Seen::default(),
            settled: String::new(),
            changed: 0,
        }
    }

    /// Runs one portion. Returns true after the last, which also stores the time of the look.
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

    /// Requests by id the next subjects that were on no page, except accounts known to be gone: accounts can move
    /// between pages while the list is read, and the list omits service accounts.
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
        let look = is_last.then(|| Whole { age: self.begun.elapsed(), seen: self.seen_last });
        self.changed += settle(app, &findings, asked.elapsed(), look).await?;
        self.settled = last.unwrap_or_default();
        Ok(is_last)
    }
}

/// The subjects seen, as 128-bit hashes: a million take some 40 MB less than their names.
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
