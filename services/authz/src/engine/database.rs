//! Settings and error handling shared by the engines' database connections.

use crate::engine::answers::Unanswered;

/// Time limit of one statement (`statement_timeout` of the engines' connections).
const STATEMENT_TIMEOUT: &str = "500ms";

/// Settings of the engines' connections. Every step of the search looks up a few rows by index. A plan made while a
/// table happened to be small would scan all of it, JIT compilation costs more than running the statement, and so does
/// starting parallel workers, which a plan does when a bulk write has made a table large and its statistics are old.
pub const SETTINGS: [(&str, &str); 6] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("statement_timeout", STATEMENT_TIMEOUT),
];

/// Reports any database error as unknown facts.
#[expect(clippy::needless_pass_by_value, reason = "it is a `map_err` function")]
pub(crate) fn unanswered(error: sqlx::Error) -> Unanswered {
    tracing::warn!(%error, "failed to read the facts of a decision");
    Unanswered { dependency: "postgres", cause: error.to_string() }
}
