//! [`Informing`]: limits the informational answers (1xx) that an upstream may send before its answer. Each is passed on
//! to the client, so an endless sequence would cost the gateway and the client without end.

use crate::upstream::client::Failure;

/// Informational answers per request: real upstreams send a 100 and a few hints.
const MAX_ANSWERS: u32 = 16;
/// Bytes of all their heads: as much as one head may have.
const MAX_BYTES: usize = 64 << 10;

/// The informational answers so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Informing {
    answers: u32,
    bytes: usize,
}

impl Informing {
    /// Counts an informational answer whose head has this many bytes.
    ///
    /// # Errors
    /// Too many answers, or too many bytes.
    pub(crate) const fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        self.answers += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.answers > MAX_ANSWERS || self.bytes > MAX_BYTES { Err(Failure::BadAnswer) } else { Ok(()) }
    }

    /// Whether none has arrived.
    pub(crate) const fn is_none(&self) -> bool {
        self.answers == 0
    }
}
