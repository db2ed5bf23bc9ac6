//! What every process tells about itself: metric families with one registry a service (several services share a
//! process under `up`), the HTTP meter with labels resolved once, the text exposition, and the set-up of `tracing`.

mod http_meter;
mod logs;
mod metrics;

pub use http_meter::{DURATION_BUCKETS, HttpMeter, InFlight, UNMATCHED};
pub use logs::{LOG_FILTER, LOG_FORMAT, LogConfig, VARIABLES};
pub use metrics::{EXPOSITION_TYPE, Metrics};
