//! Reconciles an external Keycloak at every start: its realm and the platform's clients become what the configuration
//! says. A run reads first and changes only what differs, so a second run changes nothing. It leaves unknown members,
//! clients and mappers as they are and never deletes anything: it disables a service client that it created and that is
//! no longer declared.
//!
//! `wanted.rs` defines the target (pure), `difference.rs` compares (pure), and this file applies the changes. It runs
//! in the background: while the provider is not up yet, it retries with growing pauses, and everything else works.

#![expect(clippy::indexing_slicing, reason = "only JSON is indexed, where a missing member is null")]

mod config;
mod difference;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use service::workers::{Next, Pace};
use service::{ApiError, AuditEvent};

use crate::App;
pub use config::Reconcile;
pub(crate) use config::{VARIABLES, read};
use difference::{Change, changes, overlay};

/// Actor of the audit row.
const ACTOR: &str = "system:reconcile";
/// First pause after a failure, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Reconciles until it has succeeded once.
pub(crate) fn start(app: &App, target: Reconcile) {
    let target = Arc::new(target);
    let aside = app.for_workers();
    // A shutdown waits for a run, because its changes at the provider must still be audited.
    let pace = Pace::until_done(FIRST_PAUSE, LONGEST_PAUSE);
    app.core.workers.every("idp_reconcile", pace, move || {
        let (app, target) = (aside.clone(), Arc::clone(&target));
        async move {
            let changed = once(&app, &target).await?;
            tracing::info!(changed, "the identity provider is as it should be");
            Ok::<_, ApiError>(Next::Done)
        }
    });
}

/// Runs once and returns the number of settings changed. Changes before a failure are logged and audited as well.
///
/// # Errors
/// The provider did not answer or refused, or the audit row could not be written.
pub async fn once(app: &App, target: &Reconcile) -> Result<usize, ApiError> {
    let mut done = Vec::new();
    let outcome = apply(app, target, &mut done).await;
    for change in &done {
        tracing::info!(%change, "reconciled the identity provider");
    }
    record(app, target, &done).await?;
    outcome.map(|()| done.len())
}

async fn apply(app: &App, target: &Reconcile, done: &mut Vec<Change>) -> Result<(), ApiError> {
    realm(app, target, done).await?;
    let clients = app.provider.clients().await?;
    client(app, &clients, &wanted::frontend(target), target, done).await?;
    for declared in &target.service_clients {
        client(app, &clients, &wanted::service(declared), target, done).await?;
    }
    for orphan in clients.iter().filter(|found| wanted::is_orphan(found, target)) {
        settings(app, &client_path(orphan), &name_of(orphan), orphan, &json!({ "enabled": false }), done)
            .await?;
    }
    Ok(())
}

async fn realm(app: &App, target: &Reconcile, done: &mut Vec<Change>) -> Result<(), ApiError> {
    let found = app.provider.realm().await?;
    let found = found.ok_or_else(|| {
        app.provider.failed(format!(
            "there is no realm {}; create it, and the administration client in it",
            target.realm
        ))
    })?;
    let wanted = wanted::realm();
    let changes = changes(&format!("realm {}", target.realm), &found, &wanted);
    if !changes.is_empty() {
        // Keycloak keeps every member of a realm that is not sent.
        app.provider.put("", &wanted).await?;
        done.extend(changes);
    }
    Ok(())
}

/// Reconciles one client and its audience mapper.
async fn client(
    app: &App,
    clients: &[Value],
    wanted: &Value,
    target: &Reconcile,
    done: &mut Vec<Change>,
) -> Result<(), ApiError> {
    let name = name_of(wanted);
    let mapper = wanted::audience_mapper(&target.audience);
    let Some(found) = clients.iter().find(|found| found["clientId"] == wanted["clientId"]) else {
        app.provider.post("/clients", &wanted::new_client(wanted, &mapper)).await?;
        done.push(Change::made(name));
        return Ok(());
    };
    settings(app, &client_path(found), &name, found, wanted, done).await?;
    let models = format!("{}/protocol-mappers/models", client_path(found));
    let mappers = found["protocolMappers"].as_array();
    let there = mappers.into_iter().flatten().find(|there| there["name"] == mapper["name"]);
    let name = format!("{name}, mapper {}", mapper["name"].as_str().unwrap_or_default());
    if let Some(there) = there {
        let path = format!("{models}/{}", there["id"].as_str().unwrap_or_default());
        return settings(app, &path, &name, there, &mapper, done).await;
    }
    app.provider.post(&models, &mapper).await?;
    done.push(Change::made(name));
    Ok(())
}

/// Sends `found` overlaid with `wanted`, if that differs.
async fn settings(
    app: &App,
    path: &str,
    name: &str,
    found: &Value,
    wanted: &Value,
    done: &mut Vec<Change>,
) -> Result<(), ApiError> {
    let changes = changes(name, found, wanted);
    if !changes.is_empty() {
        app.provider.put(path, &overlay(found, wanted)).await?;
        done.extend(changes);
    }
    Ok(())
}

fn client_path(found: &Value) -> String {
    format!("/clients/{}", found["id"].as_str().unwrap_or_default())
}

fn name_of(client: &Value) -> String {
    format!("client {}", client["clientId"].as_str().unwrap_or_default())
}

async fn record(app: &App, target: &Reconcile, done: &[Change]) -> Result<(), ApiError> {
    if done.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = done.iter().map(ToString::to_string).collect();
    let tx = app.core.begin_as(ACTOR, None).await?;
    tx.commit(&AuditEvent {
        company: None,
        action: "provider.reconciled",
        subject: format!("realm:{}", target.realm),
        payload: json!({ "changes": told }),
    })
    .await
}
