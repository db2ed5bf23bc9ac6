//! Lists the history of a document, oldest entry first.

use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use service::{ApiError, Around, CompanyCall, Data, HistoryEntry};

use crate::admission::{self, Admitted};
use crate::documents::answer::uncached;
use crate::documents::rules::subject_of;
use crate::placements::rules::Child;
use crate::{App, access_requests, folders, placements};

/// A manager may also open the document through a folder around it. What others than its owner did to such a folder, the
/// sweep that finishes what broke off included, is therefore in the document's history.
///
/// Requests for access, the folders that the document has been in, and what was done to those around it are told to those
/// who share it: they list its requests, and a folder is not open to everyone who reads a document in it.
pub(crate) async fn list(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let mut admitted = admission::admit_trashed(&app, call).await?;
    let _read = admitted.wait_to_read(&app).await?;
    loop {
        let entries = entries(&app, &admitted).await?;
        if admitted.held(&app).await? {
            return Ok(uncached(Data(entries)));
        }
    }
}

async fn entries(app: &App, admitted: &Admitted) -> Result<Vec<HistoryEntry>, ApiError> {
    let document = admitted.gist.id;
    let subject = subject_of(document);
    let company = admitted.company;
    let folders = placements::store::around(&app.core.pool, company, Child::Document(document)).await?;
    let folders = folders::store::owners(&app.core.pool, company, &folders).await?;
    let objects = folders.into_iter().map(|(id, owner)| (folders::rules::subject_of(id), owner)).collect();
    let around = Around { objects, actions: &OPENING };
    let mut entries = admitted.history_around(&app.core, &subject, &around).await?;
    if entries.iter().any(|entry| is_request(entry) || names_folder(entry) || entry.subject != subject)
        && !admission::shares(app, admitted).await?
    {
        // Read anew: hidden entries do not count towards the limit.
        entries = admitted.history_without(&app.core, &subject, &access_requests::rules::entries()).await?;
        for payload in entries.iter_mut().filter_map(|entry| entry.payload.as_object_mut()) {
            payload.remove(FOLDER_ID);
        }
    }
    Ok(entries)
}

const FOLDER_ID: &str = "folderId";
/// What may open the documents in a folder to others, or end that.
const OPENING: [&str; 4] = ["folder.moved", "share.created", "share.role_changed", "share.deleted"];

fn is_request(entry: &HistoryEntry) -> bool {
    access_requests::rules::ACTIONS.contains(&entry.action.as_str())
}

fn names_folder(entry: &HistoryEntry) -> bool {
    entry.payload.get(FOLDER_ID).is_some_and(|value: &Value| !value.is_null())
}
