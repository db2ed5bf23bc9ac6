//! The rules of an app's manifest on its own. Pure. `verdict.rs` has the rules against everything that is registered.

use std::collections::BTreeSet;

use contract::FieldProblem;
use contract::envelope::{MAX_PROBLEMS, shown};
use contract::fields::{Fields, FromBody, Text, is_odd_control};
use contract::fragment::{Relations, access_feature, is_base_type, parse_relations};
use contract::manifest::{is_key, version};
use semver::Version;
use serde_json::{Map, Value, json};

use crate::content::fingerprint;

/// The manifest's key for the relations.
pub(super) const FRAGMENT: &str = "authzFragment";
/// Longest text in a manifest, in characters. Longer texts are refused like wrong types, before any rule is checked.
const MAX_TEXT: usize = 1_000;
/// Longest display name, in characters.
const MAX_DISPLAY_NAME: usize = 200;
/// Maximum number of feature keys per app.
const MAX_FEATURES: usize = 256;
/// Longest feature key, in characters.
const MAX_FEATURE_KEY: usize = 128;

const KEYS: [&str; 6] = ["key", "displayName", "version", "serviceClientId", "features", FRAGMENT];
/// Keys that would collide with other paths of the gateway.
const RESERVED_KEYS: [&str; 9] =
    ["auth", "console", "healthz", "internal", "org", "platform", "readyz", "realms", "resources"];
/// The browser's client and the identity provider's built-in clients.
const RESERVED_CLIENTS: [&str; 8] = [
    "platform-frontend",
    "account",
    "account-console",
    "admin-cli",
    "broker",
    "realm-management",
    "security-admin-console",
    "master-realm",
];

/// Keys and clients that no app may use.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    /// Keys of the shipped modules, installed or not.
    pub module_keys: BTreeSet<String>,
    /// The client that administers the identity provider.
    pub idp_admin_client: Option<String>,
}

/// A manifest as sent: all required keys are present and all types are correct; no rule has been checked.
#[derive(Clone, Debug)]
pub(super) struct AppManifest {
    key: String,
    display_name: String,
    version: String,
    client_id: String,
    features: Vec<String>,
    relations: Value,
}

/// A manifest that satisfies every rule of this file.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) key: String,
    pub(super) display_name: String,
    pub(super) version: Version,
    pub(super) client_id: String,
    /// Without the access feature that every app has.
    pub(super) features: BTreeSet<String>,
    pub(super) relations: Relations,
    raw_relations: Value,
}

impl FromBody for AppManifest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let any = Text::prose(0, MAX_TEXT);
        let key = fields.text("key", any);
        let display_name = fields.text("displayName", any);
        let version = fields.text("version", any);
        let client_id = fields.text("serviceClientId", any);
        let features = read_features(fields);
        let relations = read_relations(fields);
        Some(Self {
            key: key?,
            display_name: display_name?,
            version: version?,
            client_id: client_id?,
            features: features?,
            relations: relations?,
        })
    }
}

fn read_features(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let Some(value) = fields.raw("features") else { return Some(Vec::new()) };
    let Value::Array(items) = value else { return fields.refuse("features", "type", "a list of strings") };
    let items = items.get(..=MAX_FEATURES).unwrap_or(items);
    let mut features = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match item.as_str() {
            Some(text) => features.push(text.to_owned()),
            None => fields.refuse(&format!("features[{index}]"), "type", "a string")?,
        }
    }
    Some(features)
}

fn read_relations(fields: &mut Fields<'_>) -> Option<Value> {
    match fields.raw(FRAGMENT) {
        None => fields.refuse(FRAGMENT, "required", "required"),
        Some(value) if value.is_object() => Some(value.clone()),
        Some(_) => fields.refuse(FRAGMENT, "type", "a JSON object"),
    }
}

impl Checked {
    /// Returns the manifest as it is stored.
    pub(super) fn manifest(&self) -> Value {
        json!({
            "key": self.key, "displayName": self.display_name, "version": self.version.to_string(),
            "serviceClientId": self.client_id, "features": self.features, "authzFragment": self.raw_relations,
        })
    }

    /// Returns the app's fragment in the format of a module's, so that authz reads only one format.
    pub(super) fn fragment(&self) -> Value {
        let feature = |key: &String| {
            json!({
                "featureKey": key, "label": key, "scopeType": "company", "requiresCompany": true,
                "accessRuleKind": "relation", "accessRulePayload": {}, "sortOrder": 0, "isSidebarEntry": false,
            })
        };
        let features: Vec<Value> = self.features.iter().map(feature).collect();
        json!({
            "moduleKey": self.key, "roles": [], "objects": [], "relations": self.raw_relations, "features": features,
            "fieldCatalog": [], "fieldSets": [], "rowScopes": [],
            "bootstrapPolicy": { "seedCompanyCreatorObjectRelations": [] },
        })
    }

    /// Returns the fingerprint of everything except the version.
    pub(super) fn content_hash(&self) -> Vec<u8> {
        fingerprint(&json!([self.display_name, self.client_id, self.features, self.raw_relations]))
    }

    /// All feature keys of the app, including the access feature that every app has.
    pub(super) fn feature_keys(&self) -> Vec<String> {
        self.features.iter().cloned().chain([access_feature(&self.key)]).collect()
    }

    pub(super) fn object_types(&self) -> Vec<String> {
        self.relations.keys().cloned().collect()
    }
}

/// Checks every rule of this file. `sent` is the body from which `manifest` was read.
pub(super) fn check(
    manifest: AppManifest,
    sent: &Value,
    reserved: &Reserved,
) -> Result<Checked, Vec<FieldProblem>> {
    let mut problems = unknown_keys(sent.as_object());
    problems.extend(check_key(&manifest.key, reserved));
    problems.extend(check_display_name(&manifest.display_name));
    problems.extend(check_client(&manifest.client_id, reserved));
    problems.extend(check_features(&manifest.features, &manifest.key));
    let version = version::parse(&manifest.version);
    if version.is_none() {
        problems.push(FieldProblem::new("version", "semver", "a semantic version such as 1.2.3"));
    }
    let relations = parse_relations(&manifest.relations, FRAGMENT);
    let (Some(version), Ok(relations), true) = (version, &relations, problems.is_empty()) else {
        problems.extend(relations.err().unwrap_or_default());
        return Err(problems);
    };
    Ok(Checked {
        key: manifest.key,
        display_name: manifest.display_name,
        version,
        client_id: manifest.client_id,
        features: manifest.features.into_iter().collect(),
        relations: relations.clone(),
        raw_relations: manifest.relations,
    })
}

fn unknown_keys(sent: Option<&Map<String, Value>>) -> Vec<FieldProblem> {
    let names = sent.into_iter().flat_map(Map::keys);
    let unknown = names.filter(|name| !name.starts_with('_') && !KEYS.contains(&name.as_str()));
    let message = || format!("one of {}", KEYS.join(", "));
    unknown.take(MAX_PROBLEMS).map(|name| FieldProblem::new(shown(name), "unknown_key", message())).collect()
}

fn check_key(key: &str, reserved: &Reserved) -> Option<FieldProblem> {
    if !is_key(key) {
        return Some(FieldProblem::new("key", "pattern", "^[a-z][a-z0-9_]{1,31}$"));
    }
    let is_taken = RESERVED_KEYS.contains(&key) || is_base_type(key) || reserved.module_keys.contains(key);
    is_taken
        .then(|| FieldProblem::new("key", "reserved", format!("not \"{key}\", which is the platform's own")))
}

fn check_display_name(name: &str) -> Option<FieldProblem> {
    let fits = (1..=MAX_DISPLAY_NAME).contains(&name.chars().count()) && !name.trim().is_empty();
    let right = format!("1 to {MAX_DISPLAY_NAME} characters, not blank, no control characters");
    (!fits || name.chars().any(is_odd_control)).then(|| FieldProblem::new("displayName", "label", right))
}

fn check_client(client: &str, reserved: &Reserved) -> Option<FieldProblem> {
    if !is_client_id(client) {
        return Some(FieldProblem::new("serviceClientId", "pattern", "^[a-z][a-z0-9_-]{1,63}$"));
    }
    let is_taken = RESERVED_CLIENTS.contains(&client) || reserved.idp_admin_client.as_deref() == Some(client);
    is_taken.then(|| FieldProblem::new("serviceClientId", "reserved", "a client of the app's own"))
}

fn is_client_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    first && bytes.all(fits) && (2..=64).contains(&text.len())
}

fn check_features(features: &[String], key: &str) -> Vec<FieldProblem> {
    if features.len() > MAX_FEATURES {
        return vec![FieldProblem::new("features", "limit", format!("at most {MAX_FEATURES}"))];
    }
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for (index, feature) in features.iter().enumerate() {
        let rule =
            feature_rule(feature, key).or_else(|| (!seen.insert(feature)).then_some(("unique", "only once")));
        if let Some((rule, message)) = rule {
            problems.push(FieldProblem::new(format!("features[{index}]"), rule, message));
        }
    }
    problems
}

fn feature_rule(feature: &str, key: &str) -> Option<(&'static str, &'static str)> {
    let Some(own) = feature.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')) else {
        return Some(("prefix", "starts with the app's key and a dot"));
    };
    if feature == access_feature(key) {
        return Some(("reserved", "not <key>.access, which every app has"));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_well_formed = !own.is_empty() && own.bytes().all(fits) && feature.len() <= MAX_FEATURE_KEY;
    (!is_well_formed).then_some(("pattern", "letters, digits, _, - and dots, at most 128 characters"))
}

#[cfg(test)]
mod tests;
