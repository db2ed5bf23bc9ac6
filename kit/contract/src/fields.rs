//! Reads a JSON body field by field, so that one response names every wrong field (`details.fields`), not only the
//! first. Each reader returns `None` after it has recorded a problem; a body's parser first reads all its fields, then
//! unwraps them with `?`, and [`parse`] turns the recorded problems into the error.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::envelope::{shown, tell};
use crate::id::{Subject, parse_uuid};
use crate::{Day, FieldProblem};

/// A body that can be read from JSON. Unknown members are ignored.
pub trait FromBody: Sized {
    /// Reads every field; `None` when one of them recorded a problem.
    fn from_body(fields: &mut Fields<'_>) -> Option<Self>;
}

/// Parses a JSON object into `T`.
///
/// # Errors
/// All field problems at once; a value that is not an object is one problem with an empty path.
pub fn parse<T: FromBody>(value: &Value) -> Result<T, Vec<FieldProblem>> {
    let Value::Object(object) = value else {
        return Err(vec![FieldProblem::new("", "type", "a JSON object")]);
    };
    let mut problems = Vec::new();
    refuse_nul(value, &mut Vec::new(), &mut problems);
    let mut fields = Fields { object, prefix: String::new(), problems };
    let body = T::from_body(&mut fields);
    match body {
        Some(body) if fields.problems.is_empty() => Ok(body),
        _ => Err(fields.problems),
    }
}

/// A member of a change request: absent, `null` or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch<T> {
    /// Leave it as it is.
    Absent,
    /// Clear it.
    Null,
    /// Set it.
    Value(T),
}

impl<T> Patch<T> {
    /// The value after the change, given the one before.
    pub fn apply(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Absent => before,
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// The constraints on a text.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    min: usize,
    max: usize,
    control: Control,
    /// No white space at its ends.
    is_trimmed: bool,
}

/// The control characters that a text may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    None,
    LineFeedAndTab,
    Any,
}

impl Text {
    /// A code, id or key: no control characters, not blank; `max` in Unicode scalars.
    #[must_use]
    pub const fn line(max: usize) -> Self {
        Self { min: 1, max, control: Control::None, is_trimmed: false }
    }

    /// As [`Text::line`], without white space at its ends: people do not see it, so two such codes look the same.
    #[must_use]
    pub const fn code(max: usize) -> Self {
        Self { is_trimmed: true, ..Self::line(max) }
    }

    /// A title, label or name: no control characters except line feed and tab, not blank; `max` in Unicode scalars.
    #[must_use]
    pub const fn title(max: usize) -> Self {
        Self { min: 1, max, control: Control::LineFeedAndTab, is_trimmed: false }
    }

    /// Running text: allows control characters; at least `min` characters (0: may be blank).
    #[must_use]
    pub const fn prose(min: usize, max: usize) -> Self {
        Self { min, max, control: Control::Any, is_trimmed: false }
    }

    fn problem(self, text: &str) -> Option<(&'static str, String)> {
        let length = text.chars().count();
        if !(self.min..=self.max).contains(&length) {
            return Some(("length", format!("{} to {} characters", self.min, self.max)));
        }
        if self.min > 0 && text.chars().all(char::is_whitespace) {
            return Some(("blank", "not only white space".to_owned()));
        }
        if self.is_trimmed && text.trim() != text {
            return Some(("trimmed", "no white space at its ends".to_owned()));
        }
        let wrong = match self.control {
            Control::None => text.chars().any(char::is_control),
            Control::LineFeedAndTab => text.chars().any(is_odd_control),
            Control::Any => false,
        };
        wrong.then(|| ("control", "no control characters".to_owned()))
    }
}

/// A control character that no title or label may hold: any except line feed and tab.
#[must_use]
pub fn is_odd_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// The members of one JSON object, and the problems found so far.
#[derive(Debug)]
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    prefix: String,
    problems: Vec<FieldProblem>,
}

impl<'a> Fields<'a> {
    /// Records a problem with a field; returns `None` so that a rule can end with it.
    pub fn refuse<T>(&mut self, name: &str, rule: &'static str, message: impl Into<String>) -> Option<T> {
        tell(&mut self.problems, FieldProblem::new(format!("{}{name}", self.prefix), rule, message));
        None
    }

    /// The raw member; `null` counts as absent.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// A required text.
    pub fn text(&mut self, name: &str, rule: Text) -> Option<String> {
        let found = self.optional_text(name, rule)?;
        self.required(name, found)
    }

    /// An optional text; may be `null`.
    pub fn optional_text(&mut self, name: &str, rule: Text) -> Option<Option<String>> {
        let Some(value) = self.raw(name) else { return Some(None) };
        let Value::String(text) = value else { return self.refuse(name, "type", "a string") };
        match rule.problem(text) {
            None => Some(Some(text.clone())),
            Some((rule, message)) => self.refuse(name, rule, message),
        }
    }

    /// A text that may be absent (keep), `null` (clear) or a value (set).
    pub fn patch_text(&mut self, name: &str, rule: Text) -> Option<Patch<String>> {
        if self.object.get(name) == Some(&Value::Null) {
            return Some(Patch::Null);
        }
        Some(self.optional_text(name, rule)?.map_or(Patch::Absent, Patch::Value))
    }

    /// A required value of a closed list.
    pub fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let found = self.optional_word(name, words)?;
        self.required(name, found)
    }

    /// An optional value of a closed list.
    pub fn optional_word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<Option<T>> {
        let Some(value) = self.raw(name) else { return Some(None) };
        let Value::String(text) = value else { return self.refuse(name, "type", "a string") };
        if let Some((_, meaning)) = words.iter().find(|(word, _)| word == text) {
            return Some(Some(*meaning));
        }
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.refuse(name, "enum", format!("one of {}", list.join(", ")))
    }

    /// A required UUID.
    pub fn uuid<T: From<Uuid>>(&mut self, name: &str) -> Option<T> {
        let found = self.optional_uuid(name)?;
        self.required(name, found)
    }

    /// An optional UUID; may be `null`.
    pub fn optional_uuid<T: From<Uuid>>(&mut self, name: &str) -> Option<Option<T>> {
        let Some(value) = self.raw(name) else { return Some(None) };
        match value.as_str().and_then(parse_uuid) {
            Some(uuid) => Some(Some(uuid.into())),
            None => self.refuse(name, "uuid", "a UUID"),
        }
    }

    /// A required day.
    pub fn day(&mut self, name: &str) -> Option<Day> {
        let Some(value) = self.raw(name) else { return self.refuse(name, "required", "required") };
        let Some(text) = value.as_str() else { return self.refuse(name, "type", "a string") };
        Day::parse(text).or_else(|| self.refuse(name, "date", Day::EXPECTED))
    }

    /// A required subject of the identity provider.
    pub fn subject(&mut self, name: &str) -> Option<Subject> {
        let Some(value) = self.raw(name) else { return self.refuse(name, "required", "required") };
        match value.as_str().and_then(Subject::parse) {
            Some(subject) => Some(subject),
            None => {
                self.refuse(name, "length", "a subject of 1 to 255 characters without control characters")
            }
        }
    }

    /// An optional boolean.
    pub fn optional_bool(&mut self, name: &str) -> Option<Option<bool>> {
        match self.raw(name) {
            None => Some(None),
            Some(Value::Bool(flag)) => Some(Some(*flag)),
            Some(_) => self.refuse(name, "type", "true or false"),
        }
    }

    /// An optional integer in a range. As in JSON Schema, `8.0` is an integer.
    pub fn optional_integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<Option<i64>> {
        let Some(value) = self.raw(name) else { return Some(None) };
        match integer(value) {
            None => self.refuse(name, "type", "an integer"),
            Some(number) if range.contains(&number) => Some(Some(number)),
            Some(_) => self.refuse(name, "range", format!("from {} to {}", range.start(), range.end())),
        }
    }

    /// An integer that may be absent (keep), `null` (clear) or in a range (set).
    pub fn patch_integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<Patch<i64>> {
        if self.object.get(name) == Some(&Value::Null) {
            return Some(Patch::Null);
        }
        Some(self.optional_integer(name, range)?.map_or(Patch::Absent, Patch::Value))
    }

    /// An optional object; its problems are reported below its path.
    pub fn optional_object<T: FromBody>(&mut self, name: &str) -> Option<Option<T>> {
        let Some(value) = self.raw(name) else { return Some(None) };
        self.nested(name, value).map(Some)
    }

    /// A required list of objects, at most `max`.
    pub fn objects<T: FromBody>(&mut self, name: &str, max: usize) -> Option<Vec<T>> {
        let Some(value) = self.raw(name) else { return self.refuse(name, "required", "required") };
        let Value::Array(items) = value else { return self.refuse(name, "type", "a list") };
        if items.len() > max {
            return self.refuse(name, "length", format!("at most {max} items"));
        }
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.nested(&format!("{name}[{index}]"), item))
            .collect();
        read.into_iter().collect()
    }

    /// Turns an absent member into a problem.
    pub fn required<T>(&mut self, name: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            return self.refuse(name, "required", "required");
        }
        found
    }

    fn nested<T: FromBody>(&mut self, name: &str, value: &'a Value) -> Option<T> {
        let Value::Object(object) = value else { return self.refuse(name, "type", "a JSON object") };
        let prefix = format!("{}{name}.", self.prefix);
        let mut inner = Fields { object, prefix, problems: std::mem::take(&mut self.problems) };
        let body = T::from_body(&mut inner);
        self.problems = inner.problems;
        body
    }
}

/// One step of the path to a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

fn integer(value: &Value) -> Option<i64> {
    let whole = |number: &f64| number.fract() == 0.0;
    // Formatted without an exponent, so that a value outside 64 bits fails to parse.
    value.as_i64().or_else(|| format!("{:.0}", value.as_f64().filter(whole)?).parse().ok())
}

/// PostgreSQL cannot store U+0000, so no string in a body may hold one. The path is written only for a problem: a path
/// per value would cost the length of all names above it.
fn refuse_nul<'a>(value: &'a Value, way: &mut Vec<Step<'a>>, problems: &mut Vec<FieldProblem>) {
    match value {
        Value::String(text) if text.contains('\0') => {
            tell(problems, FieldProblem::new(written(way), "control", "no U+0000"));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                way.push(Step::Item(index));
                refuse_nul(item, way, problems);
                way.pop();
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if name.contains('\0') {
                    let message = "no U+0000 in a member's name";
                    tell(problems, FieldProblem::new(written(way), "control", message));
                }
                way.push(Step::Member(name));
                refuse_nul(member, way, problems);
                way.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn written(way: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in way {
        match step {
            Step::Item(index) => {
                path.push('[');
                path.push_str(&index.to_string());
                path.push(']');
            }
            Step::Member(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&shown(name));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Thing {
        name: String,
        owner: Option<Uuid>,
        count: Option<i64>,
        parts: Vec<Part>,
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Part(String);

    impl FromBody for Thing {
        fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
            let name = fields.text("name", Text::line(5));
            let owner = fields.optional_uuid("owner");
            let count = fields.optional_integer("count", 0..=9);
            let parts = fields.objects("parts", 2);
            Some(Self { name: name?, owner: owner?, count: count?, parts: parts? })
        }
    }

    impl FromBody for Part {
        fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
            Some(Self(fields.text("key", Text::line(3))?))
        }
    }

    fn rules(value: &Value) -> Vec<(String, String)> {
        let problems = parse::<Thing>(value).expect_err("refused");
        problems.into_iter().map(|problem| (problem.path, problem.rule.into_owned())).collect()
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let found = rules(&json!({"name": 7, "owner": "x", "count": 10, "parts": [{"key": "abc"}, {}]}));
        let expected =
            [("name", "type"), ("owner", "uuid"), ("count", "range"), ("parts[1].key", "required")];
        assert_eq!(found, expected.map(|(path, rule)| (path.to_owned(), rule.to_owned())));
    }

    #[test]
    fn limits_hold_at_and_one_past() {
        let thing =
            |name: &str, parts: usize| json!({"name": name, "parts": vec![json!({"key": "k"}); parts]});
        assert!(parse::<Thing>(&thing("ääääß", 2)).is_ok());
        assert_eq!(rules(&thing("sixsix", 2)), [("name".to_owned(), "length".to_owned())]);
        assert_eq!(rules(&thing("five5", 3)), [("parts".to_owned(), "length".to_owned())]);
        assert_eq!(rules(&thing("  ", 0)), [("name".to_owned(), "blank".to_owned())]);
        assert_eq!(rules(&thing("a\nb", 0)), [("name".to_owned(), "control".to_owned())]);
        assert_eq!(Text::title(4).problem("a\n\tb"), None);
        for odd in ["a\rb", "a\u{7}b", "a\u{7f}b", "a\u{85}b"] {
            assert_eq!(Text::title(4).problem(odd).map(|(rule, _)| rule), Some("control"), "{odd:?}");
        }
        assert_eq!(Text::title(4).problem("\n\t").map(|(rule, _)| rule), Some("blank"));
        assert_eq!(Text::code(4).problem("a b"), None);
        for code in [" a", "a ", "\u{a0}a"] {
            assert_eq!(Text::code(4).problem(code).map(|(rule, _)| rule), Some("trimmed"), "{code:?}");
            assert_eq!(Text::line(4).problem(code), None, "{code:?}");
        }
    }

    #[test]
    fn a_body_made_to_be_slow_is_read_as_fast_as_any() {
        // Half a megabyte of name above a quarter of a million values: a path for each would be 125 GB of copies.
        let slow = json!({"name": "a", "parts": [], "x".repeat(1 << 19): vec![json!("a"); 1 << 18]});
        let begun = std::time::Instant::now();
        assert!(parse::<Thing>(&slow).is_ok());
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
        let wrong = json!({"name": "a", "parts": [], "x".repeat(1 << 10): vec![json!("\0"); 1 << 10]});
        let problems = parse::<Thing>(&wrong).expect_err("refused");
        assert_eq!(problems.len(), crate::envelope::MAX_PROBLEMS + 1);
        assert!(problems.iter().all(|problem| problem.path.len() < 150));
        assert_eq!(problems.last().map(|problem| &*problem.rule), Some("more"));
    }

    #[test]
    fn an_integer_may_be_written_with_a_zero_fraction() {
        let read = |count: Value| parse::<Thing>(&json!({"name": "a", "count": count, "parts": []}));
        for count in [json!(9), json!(9.0), json!(-0.0)] {
            assert!(read(count.clone()).is_ok(), "{count}");
        }
        for (count, rule) in [
            (json!(9.5), "type"),
            (json!(1e300), "type"),
            (json!("9"), "type"),
            (json!(10.0), "range"),
            (json!(-1.0), "range"),
        ] {
            let problems = read(count.clone()).expect_err("refused");
            assert_eq!(problems.iter().map(|problem| &*problem.rule).collect::<Vec<_>>(), [rule], "{count}");
        }
    }

    #[test]
    fn nul_is_refused_anywhere_and_a_body_is_an_object() {
        let found = rules(&json!({"name": "a", "parts": [], "extra": {"deep": ["\0"]}}));
        assert_eq!(found, [("extra.deep[0]".to_owned(), "control".to_owned())]);
        for bad in [json!([]), json!(null), json!("x"), json!(1)] {
            assert_eq!(rules(&bad), [(String::new(), "type".to_owned())]);
        }
    }
}
