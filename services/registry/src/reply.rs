//! The response to a change, with the revision that contains it. The gateway waits for this revision before it
//! responds.

use axum::response::{IntoResponse, Response};
use contract::catalog::REVISION_HEADER;
use serde::Serialize;
use service::Data;

/// `{"data": …}` with the revision of the catalog for which it holds.
#[derive(Debug)]
pub(crate) struct AtRevision<T> {
    pub(crate) revision: i64,
    pub(crate) data: T,
}

impl<T: Serialize> IntoResponse for AtRevision<T> {
    fn into_response(self) -> Response {
        ([(REVISION_HEADER, self.revision.to_string())], Data(self.data)).into_response()
    }
}
