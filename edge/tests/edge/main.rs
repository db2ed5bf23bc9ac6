//! Tests of the gateway from outside: real TLS on port 0, HTTP/1.1 and HTTP/2 clients, scripted upstreams behind it.
//! Every error answer is checked against the error schema of the published description.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]
#![expect(clippy::print_stdout, reason = "figures are printed for runs with --nocapture")]

mod answers;
mod backend;
mod balancer;
mod bearer;
mod catalog;
mod client;
mod cookies;
mod described;
mod drain;
mod early;
mod fairness;
mod floods;
mod forwarding;
mod frames;
mod fuzz;
mod guards;
mod h2c;
mod hostile;
mod hosts;
mod http1;
mod http2;
mod idle;
mod informational;
mod limits;
mod log;
mod malformed;
mod metrics;
mod multiplexed;
mod paths;
mod peer;
mod provider;
mod provisioning;
mod rates;
mod raw;
mod refusals;
mod resumption;
mod reuse;
mod scrapes;
mod secured;
mod stalls;
mod streaming;
mod timers;
mod tls_upstream;
mod tokens;
mod trailers;
mod upgrades;
mod upstreams;
mod world;
mod writes;
