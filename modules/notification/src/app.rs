//! What the handlers are made of, and the start of the work that no request asks for.

use std::ops::Deref;
use std::sync::Arc;

use contract::id::CompanyId;
use service::module::Parts;
use service::outbound::{OutboundClient, OutboundLimits};
use service::sealed::look_for_unopened;
use service::workers::Wake;
use service::{ApiError, ServeError};

use crate::backlog;
use crate::delivery::{self, Meter};
use crate::former_members::Addresses;
use crate::secrets::rules::Sealer;
use crate::secrets::store::SEALED;
use crate::settings::Settings;

/// State of the routes. Cheap to clone.
#[derive(Clone)]
pub struct App {
    parts: Parts,
    pub(crate) outbound: OutboundClient,
    pub(crate) sealer: Sealer,
    pub(crate) outbox: Outbox,
    pub(crate) wake: Wake,
}

/// How jobs are made.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// The group of the workers that deliver them.
    pub(crate) group: Arc<str>,
    /// Seconds before the first attempt.
    pub(crate) delay_seconds: f64,
}

impl App {
    /// Opens the signing secret of a channel, or seals it.
    pub(crate) const fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Tells the worker of this process that there are jobs.
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    /// The caller's member row.
    pub(crate) async fn member(&self, permit: &service::Permit) -> Result<contract::id::MemberId, ApiError> {
        Ok(self.org.member_context(permit).await?.member)
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// Registers the metrics and starts the worker, the recount, the sweep of settled jobs and the forgetting of former members.
///
/// # Errors
/// A family registered twice, or a mail transport that cannot be made.
pub(crate) fn start(parts: Parts, settings: &Settings) -> Result<App, ServeError> {
    let meter = Meter::register(&parts.core.metrics)?;
    let outbound = OutboundClient::new(
        settings.outbound.clone(),
        OutboundLimits { answer_body: delivery::MAX_ANSWER, ..OutboundLimits::default() },
    );
    let sealer = Sealer::new(Arc::clone(&settings.keys));
    let outbox = Outbox {
        group: settings.claim_group.as_str().into(),
        delay_seconds: settings.ladder.first_delay.as_secs_f64(),
    };
    parts.forget_members::<Addresses>();
    look_for_unopened(&parts.core, &settings.keys, &SEALED);
    let wake = delivery::start(&parts, settings, &meter, &outbound, &sealer, &outbox)?;
    backlog::start(&parts.core.workers, &parts.core, &wake);
    Ok(App { parts, outbound, sealer, outbox, wake })
}

/// The system's actor in the company of a job.
pub(crate) const fn system(company: CompanyId) -> service::SystemPermit {
    service::SystemPermit::of(delivery::WORKER, company)
}
