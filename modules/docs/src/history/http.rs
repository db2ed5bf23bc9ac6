//! Lists the history of a document, oldest entry first.

use axum::extract::State;
use axum::response::Response;
use service::{ApiError, CompanyCall, Data};

use crate::App;
use crate::admission;
use crate::documents::answer::uncached;
use crate::documents::rules::subject_of;

pub(crate) async fn list(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let admitted = admission::admit_trashed(&app, call).await?;
    let entries = admitted.history(&app.core, &subject_of(admitted.gist.id)).await?;
    Ok(uncached(Data(entries)))
}
