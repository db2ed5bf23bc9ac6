//! The stream of snapshots: one line with a whole snapshot per change, and an empty line after each second without one.
//! It ends when the service drains, or when the catalog changes without a higher revision (a restored database); the
//! client then reconnects and receives the new snapshot at once.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::catalog::CatalogSnapshot;
use futures_util::stream::unfold;
use http::header::CONTENT_TYPE;
use service::{ApiError, Query};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::follower::Latest;
use crate::App;
use crate::catalog::rules::Edition;

/// Interval of empty lines on an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Streams the catalog. The first line comes at once unless the catalog is at the revision `after`.
pub(crate) async fn follow(State(app): State<App>, query: Query) -> Result<Response, ApiError> {
    let after = after(&query)?;
    let mut changes = app.follower.subscribe();
    changes.mark_unchanged();
    let now = app.catalog.get().await?;
    let first = if after == Some(now.snapshot.revision) { None } else { Some(line(&now.snapshot)?) };
    let stream = Stream { first, sent: now.catalog.edition.clone(), changes, stop: app.stop.clone() };
    let lines = unfold(stream, |mut stream| async { stream.next().await.map(|line| (line, stream)) });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

fn after(query: &Query) -> Result<Option<i64>, ApiError> {
    let Some(text) = query.get("after") else { return Ok(None) };
    let revision = text.parse::<i64>().ok().filter(|revision| *revision >= 0);
    revision.map(Some).ok_or_else(|| ApiError::validation_field("after", "type", "a revision"))
}

struct Stream {
    first: Option<Bytes>,
    sent: Edition,
    changes: watch::Receiver<Latest>,
    stop: CancellationToken,
}

impl Stream {
    async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => None,
            change = tokio::time::timeout(HEARTBEAT, self.change()) => {
                change.unwrap_or_else(|_| Some(Ok(Bytes::from_static(b"\n"))))
            }
        }
    }

    /// Waits for a snapshot with a higher revision than the last one sent; returns `None` if the catalog changes
    /// without one.
    async fn change(&mut self) -> Option<Result<Bytes, ApiError>> {
        loop {
            self.changes.changed().await.ok()?;
            let Some(latest) = self.changes.borrow_and_update().clone() else { continue };
            let edition = &latest.catalog.edition;
            if *edition == self.sent {
                continue;
            }
            if edition.revision <= self.sent.revision {
                return None;
            }
            self.sent = edition.clone();
            return Some(line(&latest.snapshot));
        }
    }
}

fn line(snapshot: &CatalogSnapshot) -> Result<Bytes, ApiError> {
    let mut text = serde_json::to_vec(snapshot).map_err(ApiError::internal)?;
    text.push(b'\n');
    Ok(Bytes::from(text))
}
