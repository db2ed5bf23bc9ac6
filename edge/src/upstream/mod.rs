//! The only part that connects to upstreams: the set of hosts (`registry`), permits to send to them (`target`), idle
//! connections, and the HTTP/1.1 and HTTP/2 clients, whose answers carry an `AnswerBody`, or a `Tunnel` where the
//! protocol is switched.

pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod idle_pool;
pub(crate) mod informing;
pub(crate) mod lasting;
pub(crate) mod registry;
pub(crate) mod socket;
pub(crate) mod target;
pub(crate) mod tunnel;
