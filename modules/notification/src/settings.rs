//! The variables of this module in addition to those of every module.

use std::sync::Arc;
use std::time::Duration;

use contract::settings::{Kind, split_list};
use contract::{Reader, Variable};
use mail::MailSettings;
use mail::settings::{MAIL_FROM, SMTP_CA, SMTP_URL};
use service::ServiceConfig;
use service::module::OwnSettings;
use service::outbound::{OutboundConfig, networks};
use service::sealed::SealingKeys;
use service::workers::{Ladder, MAX_ATTEMPTS};

const RECOUNT: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_RECOUNT_INTERVAL",
    Kind::Duration,
    Some("15s"),
    "How often delivery jobs are counted for the metrics; 1s to 1h",
);
const RETRY_SECONDS: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_RETRY_SECONDS",
    Kind::List,
    Some("0,5,300,1800,7200,18000,36000,50400,72000,86400"),
    "Seconds before each attempt of a delivery; as many attempts as numbers, 1 to 100 of 0 to 86400; all but the first are spread by a fifth",
);
const ALLOW_HTTP: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP",
    Kind::Flag,
    Some("false"),
    "Whether webhooks may be http:// besides https://, as PLATFORM_OUTBOUND_ALLOW_HTTP for every service",
);
const ALLOW_CIDRS: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS",
    Kind::List,
    None,
    "Networks that webhooks may lead to although they are not public, beside PLATFORM_OUTBOUND_ALLOW_NETWORKS; never the platform's own ports; up on localhost allows loopback if this is unset",
);
const CLAIM_GROUP: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_CLAIM_GROUP",
    Kind::Text,
    Some("default"),
    "Group of the jobs that this process makes and delivers: 1 to 64 letters, digits, - and _",
);
const CONCURRENCY: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_CONCURRENCY",
    Kind::Integer,
    Some("16"),
    "Deliveries that one process works on at a time, 1 to 1024; one whose receiver takes longer than 25 ms to answer frees its slot for another and waits beside (128 for each slot); four at most to one channel, and to the channels of one company half as many as still fit",
);
const SECRET_KEY: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_SECRET_KEY",
    Kind::Secret,
    None,
    "Keys that seal the signing secrets of webhooks, in place of PLATFORM_SEALING_KEYS and of the same form",
);

/// A count reads an index of all jobs; counting more often would cost more than the figures are worth.
const RECOUNT_MIN: Duration = Duration::from_secs(1);
/// Figures older than this are useless.
const RECOUNT_MAX: Duration = Duration::from_hours(1);
/// A day: the longest step of the default ladder.
const MAX_STEP_SECONDS: u64 = 86_400;
/// The most deliveries that one process has files and memory for at a time.
const MAX_CONCURRENCY: u64 = 1_024;
/// Longest name of a claim group, in bytes.
const MAX_GROUP: usize = 64;

/// The settings of notification in addition to those of every module.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `PLATFORM_NOTIFICATION_RECOUNT_INTERVAL`.
    pub recount_interval: Duration,
    /// The mail server and the sender; without them, e-mail is retried and given up.
    pub mail: Option<MailSettings>,
    /// `PLATFORM_NOTIFICATION_RETRY_SECONDS`.
    pub ladder: Steps,
    /// The targets that webhooks may have.
    pub outbound: OutboundConfig,
    /// `PLATFORM_NOTIFICATION_CLAIM_GROUP`.
    pub claim_group: String,
    /// `PLATFORM_NOTIFICATION_CONCURRENCY`.
    pub concurrency: usize,
    /// The keys that seal signing secrets.
    pub keys: Arc<SealingKeys>,
}

/// The delays before the attempts of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The delay before the first attempt.
    pub first_delay: Duration,
    /// The delays before all attempts.
    pub ladder: Ladder,
}

impl Steps {
    /// Parses a list of seconds.
    fn parse(text: &str) -> Option<Self> {
        let seconds = |item: &String| item.parse::<u64>().ok().filter(|seconds| *seconds <= MAX_STEP_SECONDS);
        let listed = split_list(text);
        let delays: Option<Vec<Duration>> =
            listed.iter().map(|item| seconds(item).map(Duration::from_secs)).collect();
        let delays = delays?;
        Some(Self { first_delay: *delays.first()?, ladder: Ladder::new(&delays)? })
    }
}

impl OwnSettings for Settings {
    const VARIABLES: &'static [Variable] = &[
        RECOUNT,
        SMTP_URL,
        SMTP_CA,
        MAIL_FROM,
        RETRY_SECONDS,
        ALLOW_HTTP,
        ALLOW_CIDRS,
        CLAIM_GROUP,
        CONCURRENCY,
        SECRET_KEY,
    ];

    fn read(reader: &mut Reader<'_>, service: &ServiceConfig) -> Self {
        let outbound = OutboundConfig::read(reader, service);
        let allow_http = reader.flag(&ALLOW_HTTP);
        let allowed = networks(reader, &ALLOW_CIDRS);
        Self {
            recount_interval: recount(reader),
            mail: mail::settings::read(reader),
            ladder: ladder(reader),
            outbound: outbound.allowing(allow_http, allowed),
            claim_group: claim_group(reader),
            concurrency: concurrency(reader),
            keys: Arc::new(SealingKeys::read_own(reader, &SECRET_KEY)),
        }
    }
}

fn recount(reader: &mut Reader<'_>) -> Duration {
    let interval = reader.duration(&RECOUNT);
    if !(RECOUNT_MIN..=RECOUNT_MAX).contains(&interval) {
        reader.refuse(RECOUNT.name, format!("{interval:?} is not between 1s and 1h"));
    }
    interval
}

fn ladder(reader: &mut Reader<'_>) -> Steps {
    let right =
        format!("1 to {MAX_ATTEMPTS} numbers of seconds from 0 to {MAX_STEP_SECONDS}, comma-separated");
    let read = reader.parsed(&RETRY_SECONDS, Steps::parse, &right);
    // An invalid value is reported, and the default is used instead.
    read.or_else(|| Steps::parse(RETRY_SECONDS.default.unwrap_or_default())).unwrap_or_else(one_attempt)
}

/// The fallback in case the default cannot be parsed either: one attempt.
fn one_attempt() -> Steps {
    #[expect(clippy::expect_used, reason = "one delay is a ladder")]
    let ladder = Ladder::new(&[Duration::ZERO]).expect("one attempt");
    Steps { first_delay: Duration::ZERO, ladder }
}

fn claim_group(reader: &mut Reader<'_>) -> String {
    let group = reader.text(&CLAIM_GROUP);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=MAX_GROUP).contains(&group.len()) || !group.bytes().all(fits) {
        reader.refuse(
            CLAIM_GROUP.name,
            format!("\"{group}\" is not 1 to {MAX_GROUP} letters, digits, - and _"),
        );
    }
    group
}

fn concurrency(reader: &mut Reader<'_>) -> usize {
    let number = reader.integer(&CONCURRENCY, 1);
    if number > MAX_CONCURRENCY {
        reader.refuse(CONCURRENCY.name, format!("{number} is more than {MAX_CONCURRENCY}"));
    }
    usize::try_from(number.min(MAX_CONCURRENCY)).unwrap_or(1)
}
