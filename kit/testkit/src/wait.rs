//! Waiting for what happens in the background.

use std::time::Duration;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks.
const PACE: Duration = Duration::from_millis(5);

/// Waits until a condition holds, and fails the test with its name if it does not within half a minute.
///
/// # Panics
/// The condition does not hold in time.
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let reached = async {
        let mut pace = tokio::time::interval(PACE);
        while !holds().await {
            pace.tick().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, reached).await.is_ok(), "not in time: {what}");
}
