//! Compares a resource at the provider with its target, member by member. Pure.

use std::fmt;

use serde_json::{Map, Value};

/// Members whose values are never shown.
const SECRET: &str = "secret";

/// A change, described in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    what: String,
    how: String,
}

impl Change {
    /// The creation of a missing resource.
    pub(super) fn made(what: String) -> Self {
        Self { what, how: "made".to_owned() }
    }

    fn of(what: &str, member: &str, from: &Value, to: &Value) -> Self {
        let how =
            if member == SECRET { format!("{member} replaced") } else { format!("{member}: {from} -> {to}") };
        Self { what: what.to_owned(), how }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.how)
    }
}

/// Returns a change for every member of `wanted` that differs in `found`. Ignores further members of `found`.
pub(super) fn changes(what: &str, found: &Value, wanted: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    collect(what, "", found, wanted, &mut changes);
    changes
}

fn collect(what: &str, path: &str, found: &Value, wanted: &Value, changes: &mut Vec<Change>) {
    let Value::Object(members) = wanted else {
        if !same(found, wanted) {
            changes.push(Change::of(what, path, found, wanted));
        }
        return;
    };
    for (name, value) in members {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(what, &path, found.get(name).unwrap_or(&Value::Null), value, changes);
    }
}

/// Compares values; lists are sets, as for the provider.
fn same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && wanted.iter().all(|item| found.contains(item))
        }
        _ => found == wanted,
    }
}

/// Returns `found` with the members of `wanted` replaced.
pub(super) fn overlay(found: &Value, wanted: &Value) -> Value {
    let Value::Object(members) = wanted else { return wanted.clone() };
    let mut result = found.as_object().cloned().unwrap_or_else(Map::new);
    for (name, value) in members {
        let laid = overlay(result.get(name).unwrap_or(&Value::Null), value);
        result.insert(name.clone(), laid);
    }
    Value::Object(result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(found: &Value, wanted: &Value) -> Vec<String> {
        changes("client a", found, wanted).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_nobody_wants_is_left_and_lists_are_sets() {
        let found = json!({ "x": 1, "uris": ["b", "a"], "attributes": { "other": "o", "pkce": "S256" } });
        let wanted = json!({ "uris": ["a", "b"], "attributes": { "pkce": "S256" } });
        assert_eq!(told(&found, &wanted), [""; 0]);
        assert_eq!(overlay(&found, &wanted)["attributes"], json!({ "other": "o", "pkce": "S256" }));
        assert_eq!(overlay(&found, &wanted)["x"], 1);
    }

    #[test]
    fn a_difference_is_told_by_its_path_and_a_secret_is_not_shown() {
        let found = json!({ "uris": ["a", "a"], "secret": "old", "attributes": { "pkce": "plain" } });
        let wanted =
            json!({ "uris": ["a", "b"], "secret": "new", "attributes": { "pkce": "S256" }, "enabled": true });
        let mut found_changes = told(&found, &wanted);
        found_changes.sort();
        assert_eq!(
            found_changes,
            [
                "client a: attributes.pkce: \"plain\" -> \"S256\"",
                "client a: enabled: null -> true",
                "client a: secret replaced",
                "client a: uris: [\"a\",\"a\"] -> [\"a\",\"b\"]",
            ]
        );
        assert_eq!(told(&overlay(&found, &wanted), &wanted), [""; 0]);
    }
}
