//! `GET /internal/authz/effective-access/summary`: the bearer's summary for one company or for all of its companies. An
//! expensive read, limited as lists are and using their connections.

use std::collections::BTreeSet;

use axum::extract::State;
use contract::Subject;
use contract::id::CompanyId;
use serde::Serialize;
use service::{ApiError, Caller, Data, Query};

use super::holdings::{self, RoleBinding};
use super::rules::{self, FieldPolicy, ObjectAccess, RowScope};
use super::store;
use crate::App;

/// Increases only when a member is removed or changes its type.
const API_VERSION: u32 = 1;

/// `Summary`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    api_version: u32,
    subject_id: Subject,
    company_id: String,
    module_key: &'static str,
    feature_keys: BTreeSet<String>,
    role_bindings: Vec<RoleBinding>,
    object_access: Vec<ObjectAccess>,
    /// Whether entries may be missing from the list.
    object_access_truncated: bool,
    row_scopes: Vec<RowScope>,
    field_policies: Vec<FieldPolicy>,
}

/// Returns what the bearer may do, as empty lists if it may do nothing.
pub async fn summary(
    State(app): State<App>,
    caller: Caller,
    query: Query,
) -> Result<Data<Summary>, ApiError> {
    let company: Option<CompanyId> = query.optional_id("companyId")?;
    if query.get("kcSub").is_some_and(|named| named != caller.subject.as_str()) {
        return Err(ApiError::validation_field("kcSub", "actor", "absent or the bearer's own subject"));
    }
    let mut summary = empty(caller.subject, company);
    let _read = app.core.read_limit.enter(&summary.subject_id).await?;
    let rows = store::read(&app.lists, &summary.subject_id, company).await?;
    let features = rules::features(&rows.modules);
    let found = holdings::read(&*app.engine, &summary.subject_id, &rows.companies, &features).await?;
    let Some(found) = found else { return Ok(Data(summary)) };
    summary.feature_keys = found.features;
    summary.role_bindings = found.bindings;
    summary.object_access_truncated = !rows.are_all;
    summary.object_access = rules::object_access(rows.tuples);
    summary.row_scopes = rules::row_scopes(&rows.modules);
    summary.field_policies = rules::field_policies(&rows.modules);
    Ok(Data(summary))
}

fn empty(subject_id: Subject, company: Option<CompanyId>) -> Summary {
    Summary {
        api_version: API_VERSION,
        subject_id,
        company_id: company.map(|id| id.to_string()).unwrap_or_default(),
        module_key: "",
        feature_keys: BTreeSet::new(),
        role_bindings: Vec::new(),
        object_access: Vec::new(),
        object_access_truncated: false,
        row_scopes: Vec::new(),
        field_policies: Vec::new(),
    }
}
