//! What the engines' connections to the database share.

use crate::engine::answers::Unanswered;

/// How long the server may work on the statement (`statement_timeout` of the engine's connections).
const STATEMENT_TIMEOUT: &str = "500ms";

/// The settings of the engine's connections. Every step of the search is a look-up of a few rows by index; a plan made
/// for a table that happened to be small would read it whole, and compiling the statement costs more than running it.
pub(crate) const SETTINGS: [(&str, &str); 5] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("statement_timeout", STATEMENT_TIMEOUT),
];

/// Whatever kept the statement from answering, the facts are not known.
#[expect(clippy::needless_pass_by_value, reason = "it is a `map_err` function")]
pub(crate) fn unanswered(error: sqlx::Error) -> Unanswered {
    tracing::warn!(%error, "the facts of a decision could not be read");
    Unanswered { dependency: "postgres", cause: error.to_string() }
}
