//! `GET /internal/authz/effective-access/summary`: the bearer's summary for one company or for all of its companies. For
//! all of them, for a subject with very many tuples, for very many modules or by SQL it is an expensive read, limited as
//! lists are and using their connections.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use contract::Subject;
use contract::id::CompanyId;
use serde::{Serialize, Serializer};
use service::{ApiError, Caller, Data, Query};

use super::catalogs::Catalogs;
use super::holdings::{self, Holdings, RoleBinding, Sources};
use super::rules::{FieldPolicy, ObjectAccess, RowScope, object_access};
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
    #[serde(serialize_with = "strings")]
    feature_keys: Vec<Arc<str>>,
    role_bindings: Vec<RoleBinding>,
    object_access: Vec<ObjectAccess>,
    /// Whether entries may be missing from the list.
    object_access_truncated: bool,
    #[serde(serialize_with = "shared")]
    row_scopes: Arc<Vec<RowScope>>,
    #[serde(serialize_with = "shared")]
    field_policies: Arc<Vec<FieldPolicy>>,
}

/// Returns what the bearer may do, as empty lists if it may do nothing.
pub async fn summary(
    State(app): State<App>,
    Extension(catalogs): Extension<Catalogs>,
    caller: Caller,
    query: Query,
) -> Result<Data<Summary>, ApiError> {
    let company: Option<CompanyId> = query.optional_id("companyId")?;
    if query.get("kcSub").is_some_and(|named| named != caller.subject.as_str()) {
        return Err(ApiError::validation_field("kcSub", "actor", "absent or the bearer's own subject"));
    }
    let mut summary = empty(caller.subject, company);
    let (sources, subject) = (Sources { engine: &*app.engine, catalogs: &catalogs }, &summary.subject_id);
    let cheap = match company {
        Some(company) => holdings::read_cheaply(sources, subject, company).await?,
        None => None,
    };
    let _read = if cheap.is_none() { Some(app.core.read_limit.enter(subject).await?) } else { None };
    let companies = match company {
        Some(company) => vec![company],
        None => store::companies(&app.lists, subject).await?,
    };
    let found = holdings::read(sources, subject, &companies, cheap).await?;
    let Some(Holdings { catalog, features, bindings, tuples, are_all }) = found else {
        return Ok(Data(summary));
    };
    summary.feature_keys = features;
    summary.role_bindings = bindings;
    summary.object_access_truncated = !are_all;
    summary.object_access = object_access(tuples);
    summary.row_scopes = Arc::clone(&catalog.row_scopes);
    summary.field_policies = Arc::clone(&catalog.field_policies);
    Ok(Data(summary))
}

fn strings<S: Serializer>(strings: &[Arc<str>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(strings.iter().map(AsRef::<str>::as_ref))
}

fn shared<T: Serialize, S: Serializer>(list: &Arc<Vec<T>>, serializer: S) -> Result<S::Ok, S::Error> {
    list.as_slice().serialize(serializer)
}

fn empty(subject_id: Subject, company: Option<CompanyId>) -> Summary {
    Summary {
        api_version: API_VERSION,
        subject_id,
        company_id: company.map(|id| id.to_string()).unwrap_or_default(),
        module_key: "",
        feature_keys: Vec::new(),
        role_bindings: Vec::new(),
        object_access: Vec::new(),
        object_access_truncated: false,
        row_scopes: Arc::default(),
        field_policies: Arc::default(),
    }
}
