//! The default grants (module contract, "Default grants"): for every active company and everything that is installed
//! and enabled, the anchor, ensured on every pass, and the `system` tuple, written once per company and module and never
//! again, so that an operator can delete it. org writes the same pair for a new company.

pub(crate) mod store;

use sqlx::PgConnection;

/// How many tuples a pass had to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) anchors: u64,
    pub(crate) system: u64,
}

impl Written {
    pub(crate) const fn is_nothing(self) -> bool {
        self.anchors == 0 && self.system == 0
    }
}

/// Ensures them for `keys`, of which only what is installed and enabled gets any. The transaction must hold
/// [`store::lock`] since before it read anything.
pub(crate) async fn ensure(conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<Written> {
    let anchors = store::ensure_anchors(conn, keys).await?;
    let system = store::write_system_once(conn, keys).await?;
    Ok(Written { anchors, system })
}
