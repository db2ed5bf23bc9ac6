//! Strict reading of a contract file: every member is either known or a comment (its name starts with `_`), every
//! problem is recorded with its path, and reading continues after a problem so that an author sees all of them at once.

use serde_json::{Map, Value};

use crate::FieldProblem;
use crate::envelope::{shown, tell};
use crate::fields::is_odd_control;

/// Largest accepted contract file, in bytes.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;
/// Longest label, name or title of a contract file, in characters.
pub(crate) const MAX_LABEL: usize = 200;
/// Most entries of a list that names modules, unit types, object types or relations: the most types that an app may
/// have.
pub(crate) const MAX_NAMED: usize = 64;
/// Most entries of a list of features, routes, roles or row scopes, and most children of a union.
pub(crate) const MAX_ENTRIES: usize = 256;

/// The problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<FieldProblem>);

impl Findings {
    /// Records a problem; returns `None` so that a rule can end with it.
    pub(crate) fn refuse<T>(
        &mut self,
        path: &str,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Option<T> {
        tell(&mut self.0, FieldProblem::new(path, rule, message));
        None
    }

    /// The recorded problems.
    pub(crate) fn into_problems(self) -> Vec<FieldProblem> {
        self.0
    }

    /// The value, if nothing was recorded.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Vec<FieldProblem>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }
}

/// Parses a file's text as JSON.
pub(crate) fn read_json(text: &str) -> Result<Value, Vec<FieldProblem>> {
    if text.len() > MAX_FILE_BYTES {
        return Err(vec![FieldProblem::new("", "size", format!("at most {MAX_FILE_BYTES} bytes"))]);
    }
    serde_json::from_str(text)
        .map_err(|error| vec![FieldProblem::new("", "json", format!("not JSON: {error}"))])
}

/// A value and its path in the file.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) path: String,
    pub(crate) value: &'a Value,
}

impl<'a> Node<'a> {
    pub(crate) fn root(path: &str, value: &'a Value) -> Self {
        Self { path: path.to_owned(), value }
    }

    /// The value as an object with the members `known`; each unknown member is a problem.
    pub(crate) fn members(&self, known: &[&str], found: &mut Findings) -> Option<Members<'a>> {
        let members = self.open(found)?;
        for (name, _) in members.entries() {
            if !known.contains(&name) {
                found.refuse::<()>(
                    &members.path_of(name),
                    "unknown_key",
                    format!("one of {}", known.join(", ")),
                );
            }
        }
        Some(members)
    }

    /// The value as an object with arbitrary member names.
    pub(crate) fn open(&self, found: &mut Findings) -> Option<Members<'a>> {
        let Value::Object(map) = self.value else { return found.refuse(&self.path, "type", "a JSON object") };
        Some(Members { path: self.path.clone(), map })
    }

    /// The value as a list whose items are not checked.
    pub(crate) fn list(&self, found: &mut Findings) -> Option<&'a [Value]> {
        let Value::Array(items) = self.value else { return found.refuse(&self.path, "type", "a list") };
        Some(items)
    }

    /// The value as a list of at most `most` items.
    pub(crate) fn items(&self, most: usize, found: &mut Findings) -> Option<Vec<Self>> {
        let items = self.list(found)?;
        if items.len() > most {
            return found.refuse(&self.path, "limit", format!("at most {most} items"));
        }
        let at = |(index, value)| Self { path: format!("{}[{index}]", self.path), value };
        Some(items.iter().enumerate().map(at).collect())
    }

    /// The value as a text.
    pub(crate) fn text(&self, found: &mut Findings) -> Option<&'a str> {
        let Value::String(text) = self.value else { return found.refuse(&self.path, "type", "a string") };
        Some(text)
    }
}

/// The members of one object.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Members<'a> {
    pub(crate) fn path_of(&self, name: &str) -> String {
        let name = shown(name);
        if self.path.is_empty() { name.into_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Every member that is not a comment.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Node<'a>)> + '_ {
        let named = self.map.iter().filter(|(name, _)| !name.starts_with('_'));
        named.map(|(name, value)| (name.as_str(), Node { path: self.path_of(name), value }))
    }

    /// The number of members that are not comments.
    pub(crate) fn len(&self) -> usize {
        self.map.keys().filter(|name| !name.starts_with('_')).count()
    }

    /// A required member; `null` counts as a value.
    pub(crate) fn need(&self, name: &str, found: &mut Findings) -> Option<Node<'a>> {
        let path = self.path_of(name);
        match self.map.get(name) {
            Some(value) => Some(Node { path, value }),
            None => found.refuse(&path, "required", "required"),
        }
    }

    pub(crate) fn text(&self, name: &str, found: &mut Findings) -> Option<&'a str> {
        self.need(name, found)?.text(found)
    }

    /// A text for people: 1 to [`MAX_LABEL`] characters, not blank, no control characters except line feed and tab.
    pub(crate) fn label(&self, name: &str, found: &mut Findings) -> Option<String> {
        let text = self.text(name, found)?;
        let fits = (1..=MAX_LABEL).contains(&text.chars().count()) && !text.trim().is_empty();
        if fits && !text.chars().any(is_odd_control) {
            return Some(text.to_owned());
        }
        found.refuse(
            &self.path_of(name),
            "label",
            format!("1 to {MAX_LABEL} characters, not blank, no control characters"),
        )
    }

    pub(crate) fn flag(&self, name: &str, found: &mut Findings) -> Option<bool> {
        let node = self.need(name, found)?;
        node.value.as_bool().or_else(|| found.refuse(&node.path, "type", "true or false"))
    }

    pub(crate) fn integer(&self, name: &str, found: &mut Findings) -> Option<i64> {
        let node = self.need(name, found)?;
        node.value.as_i64().or_else(|| found.refuse(&node.path, "type", "an integer"))
    }

    pub(crate) fn items(&self, name: &str, most: usize, found: &mut Findings) -> Option<Vec<Node<'a>>> {
        self.need(name, found)?.items(most, found)
    }

    /// One value of a closed list.
    pub(crate) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], found: &mut Findings) -> Option<T> {
        let text = self.text(name, found)?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*meaning);
        }
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        found.refuse(&self.path_of(name), "enum", format!("one of {}", list.join(", ")))
    }

    /// A reserved member, which must be `null`.
    pub(crate) fn null(&self, name: &str, found: &mut Findings) -> Option<()> {
        let node = self.need(name, found)?;
        if node.value.is_null() { Some(()) } else { found.refuse(&node.path, "reserved", "null") }
    }
}
