//! Cases as data: a sample that satisfies every rule, and for each case a value and the path to put it at.

use serde::Deserialize;
use serde_json::Value;

pub(crate) const MANIFEST: &str = include_str!("manifest.json");
pub(crate) const FRAGMENT: &str = include_str!("fragment.json");
pub(crate) const RELATIONS: &str = include_str!("relations.json");
pub(crate) const OPENAPI: &str = include_str!("openapi.json");
pub(crate) const APP: &str = include_str!("app.json");
pub(crate) const FRONTEND: &str = include_str!("frontend.json");

#[derive(Deserialize)]
struct File {
    sample: Value,
    cases: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    rule: String,
    at: String,
    /// The path of the accepted value, if different.
    accept_at: Option<String>,
    #[serde(default)]
    accept: Value,
    #[serde(default)]
    refuse: Value,
    #[serde(default)]
    remove: bool,
    path: String,
    /// Whether the JSON Schema refuses it too.
    #[serde(default = "yes")]
    schema: bool,
}

const fn yes() -> bool {
    true
}

/// One case: two whole files.
pub(crate) struct Case {
    pub(crate) rule: String,
    pub(crate) accepted: Value,
    pub(crate) refused: Value,
    /// The path of the problem in the refused file.
    pub(crate) path: String,
    pub(crate) schema: bool,
    /// Descriptions of both.
    pub(crate) shown: [String; 2],
}

/// The file that satisfies every rule.
pub(crate) fn sample(file: &str) -> Value {
    read(file).sample
}

pub(crate) fn cases(file: &str) -> Vec<Case> {
    let File { sample, cases } = read(file);
    cases.into_iter().map(|entry| case(&sample, entry)).collect()
}

fn read(file: &str) -> File {
    serde_json::from_str(file).expect("the cases are well-formed")
}

fn case(sample: &Value, entry: Entry) -> Case {
    let Entry { rule, at, accept_at, accept, refuse, remove, path, schema } = entry;
    if remove {
        let shown = [format!("{at} is there"), format!("no {at}")];
        return Case { rule, accepted: sample.clone(), refused: without(sample, &at), path, schema, shown };
    }
    let accept_at = accept_at.unwrap_or_else(|| at.clone());
    let shown = [show(&accept_at, &accept), show(&at, &refuse)];
    let (accepted, refused) = (with(sample, &accept_at, accept), with(sample, &at, refuse));
    Case { rule, accepted, refused, path, schema, shown }
}

fn show(at: &str, value: &Value) -> String {
    let text = value.to_string();
    if at.is_empty() { text } else { format!("{at} {text}") }
}

/// The sample with one value replaced or added.
pub(crate) fn with(sample: &Value, pointer: &str, value: Value) -> Value {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return value };
    let mut file = sample.clone();
    let parent = file.pointer_mut(parent).expect(pointer);
    if let Value::Array(items) = parent {
        items[name.parse::<usize>().expect("an index")] = value;
    } else {
        parent[name.replace("~1", "/")] = value;
    }
    file
}

fn without(sample: &Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let mut file = sample.clone();
    let parent = file.pointer_mut(parent).and_then(Value::as_object_mut).expect(pointer);
    parent.remove(name).expect(pointer);
    file
}
