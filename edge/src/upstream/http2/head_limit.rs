//! [`HeadLimit`]: the head size that an upstream accepts (`SETTINGS_MAX_HEADER_LIST_SIZE`, RFC 9113, 6.5.2). The `h2`
//! crate ignores this setting; a larger head may make the upstream end the connection, with other clients' requests on
//! it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::http::headers::{HEADER_OVERHEAD, size_of};

/// A head up to this size does not wait for the upstream's first settings. It is half of the smallest default limit of
/// common servers (Tomcat, Jetty and Netty: 8 KiB), and most heads are smaller.
const SMALL_HEAD: usize = 4 << 10;
/// No limit, or none known.
const UNLIMITED: u32 = u32::MAX;

/// The limit of one connection's upstream.
#[derive(Debug)]
pub(crate) struct HeadLimit {
    bytes: AtomicU32,
    /// The upstream's first settings have arrived.
    greeted: AtomicBool,
    greeting: Notify,
}

impl Default for HeadLimit {
    fn default() -> Self {
        Self { bytes: AtomicU32::new(UNLIMITED), greeted: AtomicBool::new(false), greeting: Notify::new() }
    }
}

impl HeadLimit {
    /// Records that settings have arrived; without a limit the previous one stays.
    pub(crate) fn announced(&self, limit: Option<u32>) {
        if let Some(bytes) = limit {
            self.bytes.store(bytes, Ordering::Relaxed);
        }
        self.greeted.store(true, Ordering::Release);
        self.greeting.notify_waiters();
    }

    /// Whether the upstream accepts this head. A large one first waits for the upstream's first settings, at most
    /// `patience`.
    pub(crate) async fn takes(&self, request: &Request<()>, patience: Duration) -> bool {
        let is_greeted = self.greeted.load(Ordering::Acquire);
        if is_greeted && self.limit() == UNLIMITED {
            return true;
        }
        let bytes = size_of_head(request);
        if !is_greeted && bytes > SMALL_HEAD {
            // An upstream that stays silent gets the head without a limit.
            let _greeted = timeout(patience, self.greeted()).await;
        }
        self.takes_bytes(bytes)
    }

    /// Whether the upstream accepts these trailers.
    pub(crate) fn takes_trailers(&self, trailers: &HeaderMap) -> bool {
        self.limit() == UNLIMITED || self.takes_bytes(size_of(trailers))
    }

    fn takes_bytes(&self, bytes: usize) -> bool {
        u32::try_from(bytes).is_ok_and(|bytes| bytes <= self.limit())
    }

    fn limit(&self) -> u32 {
        self.bytes.load(Ordering::Relaxed)
    }

    async fn greeted(&self) {
        let greeting = self.greeting.notified();
        if !self.greeted.load(Ordering::Acquire) {
            greeting.await;
        }
    }
}

/// The size as RFC 9113, 6.5.2 counts it, including the pseudo-headers that `h2` derives from the target.
fn size_of_head(request: &Request<()>) -> usize {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let pseudo = [
        (":method", request.method().as_str()),
        (":scheme", uri.scheme_str().unwrap_or_default()),
        (":authority", uri.authority().map_or("", http::uri::Authority::as_str)),
        (":path", path),
    ];
    let pseudo = pseudo.iter().map(|(name, value)| name.len() + value.len() + HEADER_OVERHEAD);
    pseudo.sum::<usize>() + size_of(request.headers())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request whose head has this many bytes.
    fn request(bytes: usize) -> Request<()> {
        let bare = |pad: &str| {
            let uri = "http://localhost/x?y";
            Request::get(uri).header("x-pad", pad).body(()).expect("a request")
        };
        let least = size_of_head(&bare(""));
        assert_eq!(least, 7 + 3 + 7 + 4 + 10 + 9 + 5 + 4 + 5 + 5 * 32);
        bare(&"x".repeat(bytes - least))
    }

    #[tokio::test]
    async fn a_head_at_the_limit_is_taken_and_one_past_it_is_not() {
        let limit = HeadLimit::default();
        let patience = Duration::from_secs(10);
        limit.announced(Some(300));
        assert!(limit.takes(&request(300), patience).await);
        assert!(!limit.takes(&request(301), patience).await);
        limit.announced(None);
        assert!(!limit.takes(&request(301), patience).await, "nothing new was said");
        limit.announced(Some(301));
        assert!(limit.takes(&request(301), patience).await);
        let trailers = |pad: usize| {
            let value = "x".repeat(pad).parse().expect("a value");
            HeaderMap::from_iter([(http::HeaderName::from_static("x"), value)])
        };
        assert!(limit.takes_trailers(&trailers(301 - 33)) && !limit.takes_trailers(&trailers(301 - 32)));
    }

    #[tokio::test]
    async fn a_large_head_waits_for_the_first_settings_and_a_small_one_does_not() {
        let forever = Duration::from_hours(1);
        let limit = HeadLimit::default();
        assert!(limit.takes(&request(SMALL_HEAD), forever).await);
        let large = request(SMALL_HEAD + 1);
        let (takes, ()) = tokio::join!(limit.takes(&large, forever), async { limit.announced(Some(4_096)) });
        assert!(!takes);
        let patience = Duration::from_millis(20);
        let begun = tokio::time::Instant::now();
        assert!(HeadLimit::default().takes(&large, patience).await, "where nothing is said");
        assert!(begun.elapsed() >= patience);
    }
}
