//! Reads the model: the fragments in registry's view, together with the revision of their catalog, compiled once per
//! edition. An engine compares the edition that its own statement read with the model's, so an outdated model is
//! detected and never decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use contract::FieldProblem;
use contract::fragment::{Relations, base_model, parse_relations};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use sqlx::types::Json;

use crate::engine::answers::Unanswered;
use crate::engine::database::unanswered;
use crate::engine::model::{Edition, Enabled, Model};

/// The model in use, shared by the engines of a process.
#[derive(Debug, Default)]
pub struct Models(RwLock<Option<Arc<Model>>>);

/// The model in use and the connections that read its source.
#[derive(Clone, Debug)]
pub(crate) struct ModelSource {
    pub(crate) pool: PgPool,
    pub(crate) models: Arc<Models>,
}

/// A module or app and its declarations.
#[derive(Debug, Deserialize)]
struct Declared {
    key: String,
    kind: String,
    enabled: bool,
    features: BTreeSet<String>,
    fragment: Value,
}

impl Models {
    /// Returns the model compiled last; the first call compiles it.
    ///
    /// # Errors
    /// As [`Self::reload`].
    pub async fn current(&self, pool: &PgPool) -> Result<Arc<Model>, Unanswered> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(model) => Ok(model),
            None => self.reload(pool).await,
        }
    }

    /// Reads the current catalog and compiles it.
    ///
    /// # Errors
    /// The catalog cannot be read or holds a fragment that registry should have rejected.
    pub async fn reload(&self, pool: &PgPool) -> Result<Arc<Model>, Unanswered> {
        let Catalog { revision, edition, declared } = read(pool).await.map_err(unanswered)?;
        let model = Arc::new(compile(revision, declared)?.of(edition));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&model));
        tracing::info!(revision, "compiled the authorization model");
        Ok(model)
    }
}

impl Declared {
    fn enabled(&self) -> Enabled {
        let Self { key, features, fragment, .. } = self;
        Enabled { key: key.clone(), features: features.clone(), fragment: fragment.clone() }
    }
}

/// The content of the catalog at one moment.
struct Catalog {
    revision: i64,
    edition: Edition,
    declared: Vec<Declared>,
}

/// Reads the catalog in one statement, so that fragments and revision come from the same moment.
async fn read(pool: &PgPool) -> sqlx::Result<Catalog> {
    let row = sqlx::query!(
        r#"SELECT revision, revision::text || ' ' || xmin::text AS "catalog!",
             date_part('epoch', pg_postmaster_start_time()) AS "started!",
             (SELECT coalesce(jsonb_agg(jsonb_build_object('key', key, 'kind', kind, 'enabled', enabled,
                'features', features, 'fragment', fragment)), '[]')
                FROM registry.module_facts WHERE installed) AS "declared!: Json<Vec<Declared>>"
           FROM registry.model_revision"#
    )
    .fetch_one(pool)
    .await?;
    let edition = Edition::told(Some(row.catalog), row.started).unwrap_or_default();
    Ok(Catalog { revision: row.revision, edition, declared: row.declared.0 })
}

fn compile(revision: i64, declared: Vec<Declared>) -> Result<Model, Unanswered> {
    let managers = declared.iter().flat_map(managers_of).collect();
    let apps = declared.iter().filter(|declared| declared.kind == "app");
    let apps = apps.map(|app| (app.key.clone(), app.features.clone())).collect();
    let enabled = declared.iter().filter(|declared| declared.enabled).map(Declared::enabled).collect();
    let parts = declared.into_iter().map(relations_of).collect::<Result<BTreeMap<_, _>, _>>()?;
    let model = Model::compile(revision, &base_model(), &parts).map_err(|error| unfit(error.to_string()))?;
    Ok(model.managed_by(managers).with_apps(apps).with_enabled(enabled))
}

/// The object types of a module and the relations that manage them. Apps declare relations only.
fn managers_of(declared: &Declared) -> Vec<(String, String)> {
    let objects = declared.fragment.get("objects").and_then(Value::as_array);
    let named = |object: &Value, key: &str| object.get(key)?.as_str().map(ToOwned::to_owned);
    let manager = |object: &Value| named(object, "objectType").zip(named(object, "managerRelation"));
    objects.into_iter().flatten().filter_map(manager).collect()
}

/// Parses the section `relations`, which the view's fragments have for apps and modules alike.
fn relations_of(declared: Declared) -> Result<(String, Relations), Unanswered> {
    let Declared { key, fragment, .. } = declared;
    let section = fragment.get("relations");
    let section = section.ok_or_else(|| unfit(format!("the fragment of {key} has no relations")))?;
    match parse_relations(section, "relations") {
        Ok(relations) => Ok((key, relations)),
        Err(problems) => Err(unfit(format!("the fragment of {key}: {}", list(&problems)))),
    }
}

fn list(problems: &[FieldProblem]) -> String {
    let lines: Vec<_> =
        problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
    lines.join("; ")
}

fn unfit(cause: String) -> Unanswered {
    tracing::error!(cause, "cannot compile a fragment of the catalog; no decision is possible");
    Unanswered { dependency: "registry", cause }
}
