//! `x-correlation-id`: one id for a request in every log line, audit row and response.

use std::fmt;
use std::sync::Arc;

use uuid::{NoContext, Timestamp, Uuid};

/// Name of the header, in requests and responses.
pub const HEADER: &str = "x-correlation-id";

/// Longest accepted client value; a longer one is replaced.
pub const MAX_LENGTH: usize = 200;

/// A request's correlation id: 1 to 200 visible ASCII characters. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CorrelationId(Arc<str>);

impl CorrelationId {
    /// Keeps a client's value byte for byte if it is 1 to 200 visible ASCII characters.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let fits = (1..=MAX_LENGTH).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
        if !fits {
            return None;
        }
        str::from_utf8(value).ok().map(|text| Self(text.into()))
    }

    /// A new `UUIDv7`, so that ids sort by time. Within one millisecond their order is random, because a counter would
    /// be shared by all threads.
    #[must_use]
    pub fn generate() -> Self {
        let id = Uuid::new_v7(Timestamp::now(NoContext));
        Self(Arc::from(&*id.hyphenated().encode_lower(&mut Uuid::encode_buffer())))
    }

    /// The client's value if valid, else a new id.
    #[must_use]
    pub fn accept(value: Option<&[u8]>) -> Self {
        value.and_then(Self::parse).unwrap_or_else(Self::generate)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_up_to_the_limit_and_replaced_past_it() {
        let longest = "x".repeat(MAX_LENGTH);
        assert_eq!(CorrelationId::accept(Some(longest.as_bytes())).as_str(), longest);
        let too_long = "x".repeat(MAX_LENGTH + 1);
        for bad in ["", "a b", "ä", "a\tb", too_long.as_str()] {
            assert_ne!(CorrelationId::accept(Some(bad.as_bytes())).as_str(), bad);
        }
        assert_eq!(CorrelationId::accept(None).as_str().len(), 36);
    }
}
