//! The text of the `Date` header, formatted once a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contract::Clock;
use http::HeaderValue;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;
use tokio::time::Instant;

/// The date format of HTTP (RFC 9110, 5.6.7).
const FORMAT: StaticFormatDescription =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// One worker's cached date; its lock is never contended.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    clock: Clock,
    present: Mutex<Option<(Instant, HeaderValue)>>,
}

impl Dates {
    /// Returns the current second.
    pub(crate) fn now(&self) -> HeaderValue {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        match &*present {
            Some((made, date)) if made.elapsed() < Duration::from_secs(1) => date.clone(),
            _ => {
                let text = self.clock.now().format(FORMAT).unwrap_or_default();
                // Years have four digits for some time to come.
                let date = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
                *present = Some((Instant::now(), date.clone()));
                date
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_http_writes_it() {
        let dates = Dates { clock: Clock::standing_at(784_111_777), present: Mutex::default() };
        assert_eq!(dates.now(), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
