//! Reconciles the provider's data at every start: creates missing keys and users, and makes the clients what the
//! configuration declares. An advisory lock serialises concurrent starts. Existing users stay unchanged, with one
//! exception: a password that equals the user's name is well known, so another one in the configuration replaces it,
//! and on a public domain no default user may have one. Clients that are no longer declared are disabled, never
//! removed.

use std::time::Duration;

use serde_json::{Value, json};
use service::{ApiError, AuditEvent, AuditedTx, Core, ServeError, name_digest};
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clients::rules::{Client, ClientKind, secret_material, service_account_of};
use crate::config::{ConfidentialClient, Config, DevUser, FRONTEND_CLIENT, default_users};
use crate::keys::rules::{KeyRing, Purpose, make_signing_key, random_bytes};
use crate::users::passwords::Passwords;
use crate::users::queue::Line;
use crate::users::rules::Profile;
use crate::users::store::NewPerson;
use crate::{clients, keys, users};

/// Actor of the audit rows.
const ACTOR: &str = "system:reconcile";
/// First pause when the database does not answer, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reconciles, and retries while the database does not answer. Returns `None` if it was told to stop meanwhile.
pub(crate) async fn until_done(
    core: &Core,
    passwords: &Passwords,
    config: &Config,
    stop: &CancellationToken,
) -> Result<Option<KeyRing>, ServeError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let attempt = tokio::select! {
            attempt = once(core, passwords, config) => attempt,
            () = stop.cancelled() => return Ok(None),
        };
        match attempt {
            Ok((_, known)) if !known.is_empty() => return Err(ServeError::Unfit(well_known(&known))),
            Ok((keys, _)) => return Ok(Some(keys)),
            Err(ApiError::Unavailable { dependency, .. }) => {
                tracing::warn!(%dependency, "the identity provider's start waits for a dependency");
            }
            Err(error) => return Err(unfit(&error)),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = pause.saturating_mul(2).min(LONGEST_PAUSE),
            () = stop.cancelled() => return Ok(None),
        }
    }
}

/// Reconciles once. Returns the keys, and the default users with a well-known password on a public domain.
async fn once(
    core: &Core,
    passwords: &Passwords,
    config: &Config,
) -> Result<(KeyRing, Vec<String>), ApiError> {
    let now = core.clock.now();
    let keys = reconcile_keys(core, now).await?;
    reconcile_clients(core, &keys, config, now).await?;
    reconcile_users(core, passwords, &config.users, now).await?;
    let mut known = Vec::new();
    if config.is_public {
        for name in default_users() {
            if has_own_name_as_password(core, passwords, &name).await? {
                known.push(name);
            }
        }
    }
    Ok((keys, known))
}

fn well_known(names: &[String]) -> String {
    format!(
        "PLATFORM_DEV_USERS: {} still has the well-known default password, which a public domain does not allow: name \
         each of them there with another password, or disable them before the domain is public",
        names.join(", ")
    )
}

/// Whether an enabled user's password is the user's own name.
async fn has_own_name_as_password(
    core: &Core,
    passwords: &Passwords,
    username: &str,
) -> Result<bool, ApiError> {
    let login = users::store::find_login(&core.pool, username).await?;
    match login.filter(|login| login.user.enabled) {
        Some(login) => {
            passwords.matches(Line::Inside, username, login.password_hash).await.map_err(ApiError::internal)
        }
        None => Ok(false),
    }
}

fn unfit(error: &ApiError) -> ServeError {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    ServeError::Unfit(format!("the identity provider cannot prepare its data: {cause}"))
}

/// Begins a transaction that excludes other starts.
async fn begin_alone(core: &Core) -> Result<AuditedTx, ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    keys::store::lock_rotation(tx.conn()).await?;
    Ok(tx)
}

async fn reconcile_keys(core: &Core, now: OffsetDateTime) -> Result<KeyRing, ApiError> {
    let mut tx = begin_alone(core).await?;
    let mut signing = keys::store::signing_keys(tx.conn()).await?;
    let mut made = Vec::new();
    if signing.is_empty() {
        let key = tokio::task::spawn_blocking(make_signing_key).await.map_err(ApiError::internal)??;
        keys::store::add_signing_key(tx.conn(), &key, now).await?;
        made.push(event("signing_key.created", format!("signing_key:{}", key.kid), json!({})));
        signing = keys::store::signing_keys(tx.conn()).await?;
    }
    let mut secret = keys::store::digest_secret(tx.conn()).await?;
    if secret.is_none() {
        let new = random_bytes()?;
        keys::store::add_digest_secret(tx.conn(), &new, now).await?;
        made.push(event("secret.created", "secret:digests".to_owned(), json!({})));
        secret = Some(new.to_vec());
    }
    commit(tx, &made).await?;
    Ok(KeyRing::new(&signing, &secret.unwrap_or_default(), now)?)
}

async fn reconcile_clients(
    core: &Core,
    keys: &KeyRing,
    config: &Config,
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    let mut tx = begin_alone(core).await?;
    let declared = declared_clients(keys, config);
    let mut events = Vec::new();
    for client in &declared {
        let before = clients::store::find(&mut *tx.conn(), &client.id).await?;
        let changes = changes(before.as_ref(), client);
        if !changes.is_empty() {
            clients::store::put(tx.conn(), client, now).await?;
            let subject = format!("client:{}", client.id);
            events.push(event("client.reconciled", subject, json!({ "changed": changes })));
        }
        events.extend(ensure_service_account(&mut tx, client, now).await?);
    }
    let ids: Vec<String> = declared.into_iter().map(|client| client.id).collect();
    for client_id in clients::store::disable_others(tx.conn(), &ids, now).await? {
        events.push(event("client.disabled", format!("client:{client_id}"), json!({})));
    }
    commit(tx, &events).await
}

async fn ensure_service_account(
    tx: &mut AuditedTx,
    client: &Client,
    now: OffsetDateTime,
) -> Result<Option<AuditEvent>, ApiError> {
    if client.kind == ClientKind::Frontend {
        return Ok(None);
    }
    let (id, username) = (Uuid::new_v4(), service_account_of(&client.id));
    let added = users::store::add_service_account(tx.conn(), id, &client.id, &username, now).await?;
    let payload = json!({ "clientId": client.id });
    Ok(added.then(|| event("user.created", format!("user:{id}"), payload)))
}

/// Creates missing users and replaces well-known passwords. Hashes before the transaction, because hashing takes longer
/// than a lock should be held.
async fn reconcile_users(
    core: &Core,
    passwords: &Passwords,
    wanted: &[DevUser],
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    let names: Vec<String> = wanted.iter().map(|user| user.username.clone()).collect();
    let mut conn = core.pool.acquire().await?;
    let existing = users::store::existing(&mut conn, &names).await?;
    drop(conn);
    let mut hashed = Vec::new();
    for user in wanted.iter().filter(|user| !existing.contains(&user.username)) {
        let hash = passwords.hash(Line::Inside, user.password.expose()).await.map_err(ApiError::internal)?;
        hashed.push((Uuid::new_v4(), &user.username, hash));
    }
    let mut changed = Vec::new();
    for user in wanted.iter().filter(|user| existing.contains(&user.username)) {
        let is_other = user.password.expose() != user.username;
        if is_other && has_own_name_as_password(core, passwords, &user.username).await? {
            let hash =
                passwords.hash(Line::Inside, user.password.expose()).await.map_err(ApiError::internal)?;
            changed.push((&user.username, hash));
        }
    }
    let mut tx = begin_alone(core).await?;
    let mut events = Vec::new();
    for (id, username, hash) in hashed {
        let profile = Profile::of(username);
        let person = NewPerson {
            id,
            username,
            email: Some(&profile.email),
            first_name: Some(&profile.first_name),
            last_name: profile.last_name.as_deref(),
            password_hash: &hash,
            must_change_password: false,
            now,
        };
        if let Some(salt) = users::store::add_person(tx.conn(), &person).await? {
            let payload = json!({ "nameDigest": name_digest(&salt, username) });
            events.push(event("user.created", format!("user:{id}"), payload));
        }
    }
    for (username, hash) in changed {
        let known = users::store::find_login(&mut *tx.conn(), username).await?;
        let Some(id) = known.map(|login| login.user.id) else { continue };
        if users::store::replace_password(tx.conn(), id, &hash, false).await? {
            users::store::end_sessions(tx.conn(), id, None).await?;
            let payload = json!({ "reason": "well_known_password" });
            events.push(event("user.password_changed", format!("user:{id}"), payload));
        }
    }
    commit(tx, &events).await
}

fn declared_clients(keys: &KeyRing, config: &Config) -> Vec<Client> {
    let frontend = Client {
        id: FRONTEND_CLIENT.to_owned(),
        kind: ClientKind::Frontend,
        secret_tag: None,
        redirect_uris: config.frontend.redirect_uris.clone(),
        web_origins: config.frontend.web_origins.clone(),
        enabled: true,
    };
    let service = config.service_clients.iter().map(|client| confidential(keys, client, ClientKind::Service));
    let administration = confidential(keys, &config.admin_client, ClientKind::Administration);
    std::iter::once(frontend).chain(service).chain([administration]).collect()
}

fn confidential(keys: &KeyRing, client: &ConfidentialClient, kind: ClientKind) -> Client {
    let material = secret_material(&client.client_id, client.secret.expose());
    Client {
        id: client.client_id.clone(),
        kind,
        secret_tag: Some(keys.tag(Purpose::ClientSecret, &material)),
        redirect_uris: Vec::new(),
        web_origins: Vec::new(),
        enabled: true,
    }
}

/// Names of the fields that differ; `created` for a new client.
fn changes(before: Option<&Client>, after: &Client) -> Vec<&'static str> {
    let Some(before) = before else { return vec!["created"] };
    let differs = [
        ("kind", before.kind != after.kind),
        ("secret", before.secret_tag != after.secret_tag),
        ("redirectUris", before.redirect_uris != after.redirect_uris),
        ("webOrigins", before.web_origins != after.web_origins),
        ("enabled", before.enabled != after.enabled),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// Commits the changes with their audit rows; without changes, rolls back.
async fn commit(mut tx: AuditedTx, events: &[AuditEvent]) -> Result<(), ApiError> {
    if events.is_empty() {
        return tx.unchanged().await;
    }
    for event in events {
        tracing::info!(action = event.action, subject = %event.subject, "reconciled");
        tx.record(event).await?;
    }
    tx.commit_recorded().await
}

fn event(action: &'static str, subject: String, payload: Value) -> AuditEvent {
    AuditEvent { company: None, action, subject, payload }
}
