//! Rate limits for subjects and client addresses, and the minimum transfer rate.

use std::time::Duration;

use contract::settings::Kind;
use contract::{Reader, Variable};

pub(super) const RATE_LIMIT: Variable = Variable::new(
    "PLATFORM_RATE_LIMIT",
    Kind::Text,
    None,
    "Requests of one subject, such as 100/s, 3000/m or 10000/h; unset: no limit",
);
pub(super) const RATE_LIMIT_ANONYMOUS: Variable = Variable::new(
    "PLATFORM_RATE_LIMIT_ANONYMOUS",
    Kind::Text,
    None,
    "Requests of one client address without a valid token, written the same way; unset: no limit",
);
/// Bucket arithmetic is in nanoseconds; one request per nanosecond is no limit any more.
const MAX_REQUESTS: u64 = 1_000_000_000;

/// A number of requests per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) requests: u64,
    pub(crate) window: Duration,
}

/// Both limits, each off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) subject: Option<Rate>,
    pub(crate) address: Option<Rate>,
}

impl Rates {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let right = "a rate such as 100/s, 3000/m or 10000/h";
        Self {
            subject: reader.parsed(&RATE_LIMIT, Rate::parse, right),
            address: reader.parsed(&RATE_LIMIT_ANONYMOUS, Rate::parse, right),
        }
    }
}

impl Rate {
    fn parse(text: &str) -> Option<Self> {
        let (requests, unit) = text.split_once('/')?;
        let requests = requests.parse().ok().filter(|requests| (1..=MAX_REQUESTS).contains(requests))?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return None,
        };
        Some(Self { requests, window: Duration::from_secs(seconds) })
    }
}

/// The minimum rate at which a client moves data (`PLATFORM_GATEWAY_MIN_RATE`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastRate {
    /// Bytes per second; 0 for no minimum.
    pub(crate) bytes: u32,
    /// How long a client may move nothing before the rate applies.
    pub(crate) grace: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_unit() {
        for (text, requests, seconds) in
            [("1/s", 1, 1), ("3000/m", 3_000, 60), ("1000000000/h", MAX_REQUESTS, 3_600)]
        {
            let window = Duration::from_secs(seconds);
            assert_eq!(Rate::parse(text), Some(Rate { requests, window }), "{text}");
        }
        for bad in ["", "1", "/s", "0/s", "1/d", "1/", "-1/s", "1.5/s", "1/s/s", "1000000001/s", "1 /s"] {
            assert_eq!(Rate::parse(bad), None, "{bad}");
        }
    }
}
