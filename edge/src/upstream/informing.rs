//! [`Informing`]: how many informational answers (1xx) an upstream may send before its answer. Each is passed on to the
//! client, so an endless row of them would cost the edge without an end, and its client as well.

use crate::upstream::client::Failure;

/// Informational answers of one request: real ones are a 100 and a few hints.
const MAX_ANSWERS: u32 = 16;
/// Bytes of all their heads: as much as one head may have.
const MAX_BYTES: usize = 64 << 10;

/// What came so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Informing {
    answers: u32,
    bytes: usize,
}

impl Informing {
    /// Counts one whose head has this many bytes.
    ///
    /// # Errors
    /// It is one too many, or its bytes are.
    pub(crate) const fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        self.answers += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.answers > MAX_ANSWERS || self.bytes > MAX_BYTES { Err(Failure::BadAnswer) } else { Ok(()) }
    }

    /// Whether none has come.
    pub(crate) const fn is_none(&self) -> bool {
        self.answers == 0
    }
}
