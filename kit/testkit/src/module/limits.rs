//! Tests request bodies at the documented limits and one past them. No operation may refuse a field value that the
//! document accepts; every operation must refuse one that the document does not accept, naming the field. The values
//! are derived from the schemas: bounds of lengths, numbers and lists, enums, patterns, formats, types, `null`, and
//! missing members. Alternatives (`oneOf`, `anyOf`, `allOf`) and maps are not covered.

use serde_json::{Value, json};
use uuid::Uuid;

use super::ModuleApi;
use super::gates::Operation;
use crate::{OpenApi, Reply};

/// Longest text tried on a pattern: longer than any key or code.
const MAX_PATTERN: usize = 300;
/// Characters of the texts tried on a pattern.
const PATTERN_CHARS: [char; 4] = ['a', 'A', '0', 'ä'];
/// A day that is valid in every list of days: a Monday.
const DAY: &str = "2026-01-05";
/// Distance past the bound of a non-integer number.
const STEP: f64 = 0.01;

/// A body that is valid except possibly for one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The field as refusals name it, such as `entries[0].note`.
    pub field: String,
    /// The body.
    pub body: Value,
    /// Whether the document accepts the field's value.
    pub fits: bool,
}

impl Case {
    /// Where the field stands in the body.
    fn pointer(&self) -> String {
        format!("/{}", self.field.replace(['.', '['], "/").replace(']', ""))
    }
}

/// Sends every case of every operation with a body.
///
/// # Panics
/// The document and an operation disagree; the message names every disagreement.
pub async fn check(module: &ModuleApi, operations: &[Operation]) {
    let mut wrong = Vec::new();
    for operation in operations {
        for case in cases(module.document(), operation) {
            let reply = module.ask(operation.method, &operation.tail, Some(case.body.clone())).await;
            wrong.extend(disagreement(&case, &reply).map(|why| format!("{}: {why}", operation.id)));
        }
    }
    assert!(wrong.is_empty(), "openapi.json beside the operations:\n{}", wrong.join("\n"));
}

/// The same for one operation of a service that is no module, whose good body is `body`: every disagreement, and how many
/// cases were sent. A member that may be left out may be `null` as well, which a document need not say.
pub async fn disagreements(
    document: &OpenApi,
    id: &str,
    body: &Value,
    send: impl AsyncFn(Value) -> Reply,
) -> (Vec<String>, usize) {
    let (mut wrong, cases) = (Vec::new(), cases_of(document, id, body));
    for case in &cases {
        let reply = send(case.body.clone()).await;
        let is_null = case.body.pointer(&case.pointer()) == Some(&Value::Null);
        let why = disagreement(case, &reply).filter(|_| !is_null || reply.status >= 500);
        wrong.extend(why.map(|why| format!("{id}: {why}")));
    }
    (wrong, cases.len())
}

/// The cases of one operation; none without a body.
#[must_use]
pub fn cases(document: &OpenApi, operation: &Operation) -> Vec<Case> {
    operation.body.as_ref().map(|body| cases_of(document, operation.id, body)).unwrap_or_default()
}

fn cases_of(document: &OpenApi, id: &str, body: &Value) -> Vec<Case> {
    let names = document.operations();
    let described = names.iter().map(|name| document.described(name));
    let described = described.into_iter().find(|found| found.get("operationId") == Some(&id.into()));
    let pointer = "/requestBody/content/application~1json/schema";
    let Some(schema) = described.and_then(|found| found.pointer(pointer)) else { return Vec::new() };
    let mut made = Cases { document, found: Vec::new() };
    made.object(body, &Location::default(), schema);
    made.found
}

/// The disagreement between the response and the document, if any.
fn disagreement(case: &Case, reply: &Reply) -> Option<String> {
    let Case { field, body, fits } = case;
    let fields = reply.body.pointer("/error/details/fields").and_then(Value::as_array);
    let paths = fields.into_iter().flatten().filter_map(|found| found.get("path").and_then(Value::as_str));
    let names = |path: &str| {
        let rest = path.strip_prefix(field.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
    };
    let is_named = (reply.status, reply.code()) == (400, "VALIDATION_ERROR") && paths.into_iter().any(names);
    let sent = shortened(&body.to_string());
    let answer = shortened(&reply.text);
    match (fits, is_named) {
        _ if reply.status >= 500 => Some(format!("{field} in {sent} fails: {} {answer}", reply.status)),
        (true, true) => {
            Some(format!("the document takes {field} in {sent}, the operation does not: {answer}"))
        }
        (false, false) => Some(format!(
            "the document refuses {field} in {sent}, the operation does not: {} {answer}",
            reply.status
        )),
        (true, false) | (false, true) => None,
    }
}

/// Enough of a text to recognise it.
fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}

/// The location of a value in a body.
#[derive(Clone, Debug, Default)]
struct Location {
    pointer: String,
    field: String,
}

impl Location {
    fn member(&self, name: &str) -> Self {
        let dot = if self.field.is_empty() { "" } else { "." };
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Self { pointer: format!("{}/{escaped}", self.pointer), field: format!("{}{dot}{name}", self.field) }
    }

    fn first_item(&self) -> Self {
        Self { pointer: format!("{}/0", self.pointer), field: format!("{}[0]", self.field) }
    }
}

struct Cases<'a> {
    document: &'a OpenApi,
    found: Vec<Case>,
}

impl Cases<'_> {
    fn object(&mut self, body: &Value, location: &Location, schema: &Value) {
        let schema = self.document.resolved(schema);
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let without = changed(body, location, |object| {
                drop(object.as_object_mut().map(|members| members.remove(name)));
            });
            self.found.push(Case { field: location.member(name).field, body: without, fits: false });
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            self.value(body, &location.member(name), property);
        }
    }

    fn value(&mut self, body: &Value, location: &Location, schema: &Value) {
        let schema = self.document.resolved(schema);
        let sample = body.pointer(&location.pointer);
        for value in self.values(schema, sample) {
            let fits = self.document.accepts(schema, &value);
            self.found.push(Case { field: location.field.clone(), body: with(body, location, value), fits });
        }
        if is(schema, "object") {
            let body = match body.pointer(&location.pointer) {
                Some(_) => body.clone(),
                None => with(body, location, self.good(schema)),
            };
            self.object(&body, location, schema);
        }
        if let (true, Some(items)) = (is(schema, "array"), schema.get("items")) {
            let one =
                body.pointer(&format!("{}/0", location.pointer)).cloned().unwrap_or_else(|| self.good(items));
            self.value(&with(body, location, json!([one])), &location.first_item(), items);
        }
    }

    /// Values at both sides of a schema's bounds, and values that it never accepts.
    fn values(&self, schema: &Value, sample: Option<&Value>) -> Vec<Value> {
        let mut values = vec![Value::Null];
        values.push(if is(schema, "string") { json!(7) } else { json!("x") });
        values.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
        let bound = |name: &str| {
            schema.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok())
        };
        let around = |least: &str, most: &str| -> Vec<usize> {
            let least = bound(least).map(|least| [least.saturating_sub(1), least]);
            let most = bound(most).map(|most| [most, most + 1]);
            least.into_iter().chain(most).flatten().collect()
        };
        if is(schema, "string") {
            values.extend(self.texts(schema, sample, &around("minLength", "maxLength")));
        }
        if is(schema, "integer") || is(schema, "number") {
            values.extend(numbers(schema));
        }
        if let (true, Some(items)) = (is(schema, "array"), schema.get("items")) {
            let lists = around("minItems", "maxItems");
            let first = sample.and_then(|list| list.get(0));
            values.extend(
                lists.iter().map(|length| (0..*length).map(|_| self.another(items, first)).collect()),
            );
        }
        values
    }

    fn texts(&self, schema: &Value, sample: Option<&Value>, lengths: &[usize]) -> Vec<Value> {
        let mut texts: Vec<Value> = Vec::new();
        let format = schema.get("format").and_then(Value::as_str);
        if schema.get("enum").is_some() || format.is_some() {
            // A value of another enum, and texts that resemble a format without matching it.
            texts.extend(["no-such-word", "2026-02-30", "0192f0c15d3e7a108c112f6a4d9b1a01"].map(Value::from));
            texts.push(sample.cloned().unwrap_or_else(|| self.good(schema)));
        } else if schema.get("pattern").is_some() {
            texts.push(json!(" "));
            texts.extend(self.texts_of_pattern(schema));
        }
        if schema.get("enum").is_none() && format.is_none() {
            texts.extend(lengths.iter().map(|length| Value::from("ä".repeat(*length))));
        }
        texts
    }

    /// Texts of one repeated character, just inside and outside the pattern's length, and one that it never matches.
    fn texts_of_pattern(&self, schema: &Value) -> Vec<Value> {
        let of = |c: char, length: usize| Value::from(c.to_string().repeat(length));
        let mut texts = vec![json!("\u{1}")];
        for c in PATTERN_CHARS {
            let taken: Vec<bool> =
                (0..=MAX_PATTERN).map(|length| self.document.accepts(schema, &of(c, length))).collect();
            let edges = taken.windows(2).enumerate().filter(|(_, pair)| pair.first() != pair.last());
            texts.extend(edges.flat_map(|(length, _)| [of(c, length), of(c, length + 1)]));
        }
        texts
    }

    /// An item like the sample's, with other ids.
    fn another(&self, items: &Value, sample: Option<&Value>) -> Value {
        let mut item = self.good(items);
        let properties = self.document.resolved(items).get("properties");
        let is_id = |name: &str| {
            let property = properties.and_then(|properties| properties.get(name));
            property.is_some_and(|property| {
                self.document.resolved(property).get("format") == Some(&json!("uuid"))
            })
        };
        if let (Some(members), Some(sample)) = (item.as_object_mut(), sample.and_then(Value::as_object)) {
            let kept = sample.iter().filter(|(name, _)| !is_id(name));
            members.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        }
        item
    }

    /// A value that the schema accepts; items with ids are distinct.
    fn good(&self, schema: &Value) -> Value {
        let schema = self.document.resolved(schema);
        let word = schema.get("enum").and_then(Value::as_array).and_then(|words| words.first());
        let format = schema.get("format").and_then(Value::as_str);
        match (word, format) {
            (Some(word), _) => word.clone(),
            (None, Some("uuid")) => json!(Uuid::now_v7()),
            (None, Some("date")) => json!(DAY),
            (None, Some("date-time")) => json!(format!("{DAY}T00:00:00Z")),
            _ if is(schema, "object") => self.good_object(schema),
            _ if is(schema, "array") => json!([]),
            _ if is(schema, "boolean") => json!(true),
            _ if is(schema, "integer") || is(schema, "number") => {
                schema.get("minimum").cloned().unwrap_or_else(|| json!(0))
            }
            _ if schema.get("pattern").is_some() => {
                let texts = self.texts_of_pattern(schema);
                texts.into_iter().find(|text| self.document.accepts(schema, text)).unwrap_or_default()
            }
            _ => json!("a"),
        }
    }

    fn good_object(&self, schema: &Value) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let member = |name: &str| {
            let property = schema.get("properties")?.get(name)?;
            Some((name.to_owned(), self.good(property)))
        };
        names.filter_map(member).collect()
    }
}

fn numbers(schema: &Value) -> Vec<Value> {
    let mut numbers = Vec::new();
    for (name, by) in [("minimum", -1), ("maximum", 1)] {
        let Some(bound) = schema.get(name) else { continue };
        numbers.push(bound.clone());
        match (is(schema, "number"), bound.as_i64(), bound.as_f64()) {
            (false, Some(bound), _) => numbers.push(json!(bound.saturating_add(by))),
            (_, _, Some(bound)) => numbers.push(json!(if by < 0 { bound - STEP } else { bound + STEP })),
            (_, _, None) => {}
        }
    }
    if is(schema, "integer") {
        numbers.push(json!(0.5));
    }
    numbers
}

/// Whether the schema allows values of the type.
fn is(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|known| known == name),
        known => known.is_some_and(|known| known == name),
    }
}

fn with(body: &Value, location: &Location, value: Value) -> Value {
    let (parent, name) = location.pointer.rsplit_once('/').unwrap_or_default();
    let parent = Location { pointer: parent.to_owned(), field: String::new() };
    let name = name.replace("~1", "/").replace("~0", "~");
    changed(body, &parent, |parent| match parent {
        Value::Object(members) => drop(members.insert(name, value)),
        Value::Array(items) => *items = vec![value],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    })
}

fn changed(body: &Value, location: &Location, change: impl FnOnce(&mut Value)) -> Value {
    let mut body = body.clone();
    if let Some(found) = body.pointer_mut(&location.pointer) {
        change(found);
    }
    body
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    const DOCUMENT: &str = r##"{"openapi":"3.1.0","paths":{"/things":{"post":{"operationId":"makeThing","requestBody":
      {"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},"responses":{}}}},
      "components":{"schemas":{
        "Thing":{"type":"object","required":["code"],"properties":{
          "code":{"type":"string","pattern":"^[A-Z]{2,3}$"},
          "note":{"type":["string","null"],"maxLength":2},
          "parts":{"type":"array","minItems":1,"maxItems":2,"items":{"$ref":"#/components/schemas/Part"}}}},
        "Part":{"type":"object","required":["id"],"properties":{
          "id":{"type":"string","format":"uuid"},
          "size":{"type":"integer","minimum":1,"maximum":9},
          "weight":{"type":"number","maximum":1},
          "colour":{"type":"string","enum":["red"]}}}}}}"##;

    fn made() -> Vec<Case> {
        let operation = Operation {
            method: "POST",
            tail: "/things".to_owned(),
            body: Some(json!({ "code": "AB" })),
            id: "makeThing",
            feature: "",
            object: super::super::gates::Object::Module,
            relation: "",
            otherwise: None,
            of_existing: false,
            operator: false,
            body_limit: 0,
            asks_database: true,
        };
        cases(&OpenApi::parse(DOCUMENT), &operation)
    }

    /// The values of one field: the accepted ones and the refused ones.
    fn values(field: &str, pointer: &str) -> [Vec<String>; 2] {
        [true, false].map(|fits| {
            let cases = made().into_iter().filter(|case| case.field == field && case.fits == fits);
            cases
                .map(|case| case.body.pointer(pointer).map_or_else(|| "-".to_owned(), Value::to_string))
                .collect()
        })
    }

    #[test]
    fn every_bound_is_tried_on_both_sides() {
        let [good, bad] = values("code", "/code");
        assert_eq!(good, ["\"AA\"", "\"AAA\""]);
        assert_eq!(bad, ["-", "null", "7", "\" \"", "\"\\u0001\"", "\"A\"", "\"AAAA\""]);
        let [good, bad] = values("note", "/note");
        assert_eq!(
            (good, bad),
            (vec!["null".to_owned(), "\"ää\"".to_owned()], vec!["7".to_owned(), "\"äää\"".to_owned()])
        );
        let [good, bad] = values("parts[0].size", "/parts/0/size");
        assert_eq!(
            (good.as_slice(), bad.as_slice()),
            (
                ["1", "9"].map(String::from).as_slice(),
                ["null", "\"x\"", "0", "10", "0.5"].map(String::from).as_slice()
            )
        );
        let [good, bad] = values("parts[0].weight", "/parts/0/weight");
        assert_eq!((good.len(), bad.last().map(String::as_str)), (1, Some("1.01")));
        let [good, bad] = values("parts[0].colour", "/parts/0/colour");
        assert_eq!((good.first().map(String::as_str), bad.len()), (Some("\"red\""), 5));
        let [good, bad] = values("parts[0].id", "/parts/0/id");
        assert_eq!((good.len(), bad.len()), (1, 6), "{bad:?}");
        let lengths = |fits| {
            let cases = made().into_iter().filter(move |case| case.field == "parts" && case.fits == fits);
            cases.filter_map(|case| Some(case.body.get("parts")?.as_array()?.len())).collect::<Vec<_>>()
        };
        assert_eq!((lengths(true), lengths(false)), (vec![1, 2], vec![0, 3]));
    }

    #[test]
    fn an_operation_that_takes_more_or_less_than_the_document_says_is_named() {
        let reply = |status: u16, path: &str| {
            let problem = json!({ "path": path, "rule": "length", "message": "" });
            let error =
                json!({ "code": "VALIDATION_ERROR", "message": "", "details": { "fields": [problem] } });
            let body = if status < 400 { json!({ "data": null }) } else { json!({ "error": error }) };
            Reply { status, headers: HeaderMap::new(), text: body.to_string(), body }
        };
        let case = |fits| Case { field: "parts".to_owned(), body: json!({}), fits };
        for (fits, reply, agrees) in [
            (true, reply(201, ""), true),
            (true, reply(400, "other"), true),
            (true, reply(400, "parts"), false),
            (true, reply(503, ""), false),
            (false, reply(400, "parts"), true),
            (false, reply(400, "parts[1].id"), true),
            (false, reply(400, "partsize"), false),
            (false, reply(201, ""), false),
        ] {
            let told = disagreement(&case(fits), &reply);
            assert_eq!(told.is_none(), agrees, "{fits} {}: {told:?}", reply.text);
        }
    }
}
