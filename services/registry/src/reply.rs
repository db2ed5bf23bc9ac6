//! The answer to a change: 200 with the revision that holds it, which the edge waits for before it answers.

use axum::response::{IntoResponse, Response};
use contract::catalog::REVISION_HEADER;
use serde::Serialize;
use service::Data;

/// `{"data": …}` and the revision at which it is true.
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
