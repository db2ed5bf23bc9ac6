//! What every process tells about itself: metric families with one registry a service (several services share a
//! process under `up`), the HTTP meter with labels resolved once, the text exposition, the set-up of `tracing`, and the
//! access log, which is written beside the requests.

mod access;
mod http_meter;
mod logs;
mod metrics;

pub use access::{AccessLog, AccessRecord, Value};
pub use http_meter::{DURATION_BUCKETS, HttpMeter, HttpSeries, InFlight, UNMATCHED};
pub use logs::{LOG_FILTER, LOG_FORMAT, LogConfig, VARIABLES};
pub use metrics::{EXPOSITION_TYPE, Metrics};
