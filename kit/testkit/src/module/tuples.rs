//! Tuples in the scripted authz: it accepts every change and answers which tuples exist. Whether the real authz would
//! accept a change is not tested here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::grants::Tuple;
use serde_json::{Value, json};

use super::ModuleApi;

/// Path for changing tuples.
pub const GRANTS: &str = "/internal/authz/grants";
/// Path by which a module removes tuples by the services' credential.
pub const REVOKE: &str = "/internal/authz/tuples/revoke";
/// Path for looking up existing tuples.
pub const LOOKUP: &str = "/internal/authz/tuples/lookup";

/// The existing tuples, keyed by their text form. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tuples(Arc<Mutex<BTreeMap<String, Tuple>>>);

impl Tuples {
    /// All of them, ordered by text form.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Adds a tuple that no request granted.
    pub fn add(&self, tuple: &Tuple) {
        self.lock().insert(tuple.to_string(), tuple.clone());
    }

    /// All of them, for a decision or to add them again.
    #[must_use]
    pub fn standing(&self) -> Vec<Tuple> {
        self.lock().values().cloned().collect()
    }

    /// Removes a tuple that no request revoked.
    pub fn remove(&self, text: &str) {
        self.lock().remove(text);
    }

    /// Removes all of them, as no request does.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn change(&self, asked: &Value) -> Value {
        let grants = asked.get("op").and_then(Value::as_str) == Some("grant");
        let tuples = read(asked);
        let mut standing = self.lock();
        let mut change = |text: &String, tuple: &Tuple| {
            if grants {
                standing.insert(text.clone(), tuple.clone()).is_none()
            } else {
                standing.remove(text).is_some()
            }
        };
        let changed: Vec<&String> =
            tuples.iter().filter(|(text, tuple)| change(text, tuple)).map(|(text, _)| text).collect();
        let status = if grants { "granted" } else { "revoked" };
        json!({ "status": status, "count": tuples.len(), "changed": changed.len(), "tuples": changed })
    }

    fn look_up(&self, asked: &Value) -> Value {
        let standing = self.lock();
        json!({ "standing": read(asked).iter().map(|(text, _)| standing.contains_key(text)).collect::<Vec<_>>() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Tuple>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::expect_used, reason = "a test whose module sends anything else has failed")]
fn read(asked: &Value) -> Vec<(String, Tuple)> {
    let tuples: Vec<Tuple> =
        serde_json::from_value(asked.get("tuples").cloned().unwrap_or_default()).expect("tuples");
    tuples.into_iter().map(|tuple| (tuple.to_string(), tuple)).collect()
}

impl ModuleApi {
    /// From now on, authz accepts every change of tuples and answers which exist.
    #[must_use]
    pub fn take_tuples(&self) -> Tuples {
        let tuples = Tuples::default();
        self.answer_tuples(&tuples);
        tuples
    }

    /// Resumes with existing tuples, after the test scripted authz otherwise.
    pub fn answer_tuples(&self, tuples: &Tuples) {
        let changed = tuples.clone();
        self.authz.answer_with("POST", GRANTS, move |request| {
            (200, json!({ "data": changed.change(&request.body) }))
        });
        let taken = tuples.clone();
        self.authz.answer_with("POST", REVOKE, move |request| {
            (200, json!({ "data": taken.change(&request.body) }))
        });
        let known = tuples.clone();
        self.authz.answer_with("POST", LOOKUP, move |request| {
            (200, json!({ "data": known.look_up(&request.body) }))
        });
    }
}
