//! Checks responses against a service's OpenAPI document: an undocumented path, method, status or shape fails the test.

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use crate::client::Reply;

/// A parsed OpenAPI 3.1 document.
#[derive(Clone, Debug)]
pub struct OpenApi(Value);

impl OpenApi {
    /// Parses a document.
    ///
    /// # Panics
    /// It is not JSON or not OpenAPI 3.1.
    #[must_use]
    #[expect(clippy::panic, reason = "a test with an invalid document has failed")]
    pub fn parse(text: &str) -> Self {
        match serde_json::from_str::<Value>(text) {
            Ok(document) if text_of(&document, "openapi").starts_with("3.1.") => Self(document),
            Ok(_) => panic!("the document does not say openapi 3.1"),
            Err(error) => panic!("the OpenAPI document is not JSON: {error}"),
        }
    }

    /// Checks a response to `method path` (the concrete path; a query is ignored).
    ///
    /// # Panics
    /// The document does not allow this response.
    #[expect(clippy::panic, reason = "a test with an undocumented response has failed")]
    pub fn check(&self, method: &str, path: &str, reply: &Reply) {
        if let Err(error) = self.check_response(method, path, reply.status, &reply.body) {
            panic!("{method} {path} -> {}: {error:#}\n{}", reply.status, reply.text);
        }
    }

    /// As [`Self::check`], but returns the error.
    ///
    /// # Errors
    /// The document does not allow this response.
    pub fn check_response(&self, method: &str, path: &str, status: u16, body: &Value) -> Result<()> {
        let operation = self.operation(method, path)?;
        let response = self.response(operation, status)?;
        let Some(schema) = response.pointer("/content/application~1json/schema") else {
            ensure!(body.is_null(), "the document has no JSON body for this answer");
            return Ok(());
        };
        self.validate(schema, body)
    }

    /// Every `METHOD /path/{template}` of the document, in document order.
    #[must_use]
    pub fn operations(&self) -> Vec<String> {
        let paths = self.0.get("paths").and_then(Value::as_object).into_iter().flatten();
        let methods = |item: &Value| -> Vec<String> {
            let names = item.as_object().into_iter().flatten().map(|(name, _)| name.to_ascii_uppercase());
            names.filter(|name| METHODS.contains(&name.as_str())).collect()
        };
        paths
            .flat_map(|(path, item)| methods(item).into_iter().map(move |method| format!("{method} {path}")))
            .collect()
    }

    /// The description of an operation in [`Self::operations`]; `Null` if there is none.
    #[must_use]
    pub fn described(&self, operation: &str) -> &Value {
        let (method, template) = operation.split_once(' ').unwrap_or_default();
        let paths = self.0.get("paths").and_then(|paths| paths.get(template));
        paths.and_then(|item| item.get(method.to_ascii_lowercase())).unwrap_or(&Value::Null)
    }

    /// The names of an operation's own parameters.
    #[must_use]
    pub fn parameters(&self, operation: &str) -> Vec<String> {
        let named = self.described(operation).get("parameters").and_then(Value::as_array);
        let resolved = named.into_iter().flatten().map(|parameter| self.resolved(parameter));
        resolved.map(|parameter| text_of(parameter, "name").to_owned()).collect()
    }

    /// The documented statuses of an operation in [`Self::operations`].
    ///
    /// # Errors
    /// There is no such operation, or one of its statuses is not a number.
    pub fn statuses(&self, operation: &str) -> Result<Vec<u16>> {
        let (method, template) = operation.split_once(' ').context("a method and a path")?;
        let responses = self.operation(method, template)?.get("responses").and_then(Value::as_object);
        let names = responses.context("the operation has no responses")?.keys();
        names.map(|name| name.parse().with_context(|| format!("{name} is not a status"))).collect()
    }

    /// The ids of the operations that list a status.
    #[must_use]
    pub fn ids_with(&self, status: &str) -> Vec<&str> {
        let paths = self.0.get("paths").and_then(Value::as_object).into_iter().flatten();
        let operations = paths.flat_map(|(_, path)| path.as_object().into_iter().flatten());
        let listing =
            operations.filter(|(_, operation)| operation.pointer(&format!("/responses/{status}")).is_some());
        listing.filter_map(|(_, operation)| operation.get("operationId")?.as_str()).collect()
    }

    /// The `error` of every example in the document's shared responses.
    #[must_use]
    pub fn refusals(&self) -> Vec<&Value> {
        let responses = self.0.pointer("/components/responses").and_then(Value::as_object);
        let examples = responses.into_iter().flatten().filter_map(|(_, response)| {
            response.pointer("/content/application~1json/examples").and_then(Value::as_object)
        });
        examples.flatten().filter_map(|(_, example)| example.pointer("/value/error")).collect()
    }

    /// Whether a schema of the document accepts a value, formats included.
    #[must_use]
    pub fn accepts(&self, schema: &Value, value: &Value) -> bool {
        self.validate(schema, value).is_ok()
    }

    /// Resolves a schema that is a reference into the document.
    #[must_use]
    pub fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.0.pointer(pointer)).unwrap_or(schema)
    }

    fn operation(&self, method: &str, path: &str) -> Result<&Value> {
        let path = path.split('?').next().unwrap_or_default();
        let paths = self.0.get("paths").and_then(Value::as_object).context("the document has no paths")?;
        let mut templates: Vec<&String> = paths.keys().filter(|template| fits(template, path)).collect();
        // A literal segment wins over a parameter, as OpenAPI requires.
        templates.sort_by_key(|template| template.matches('{').count());
        let template = templates.first().with_context(|| format!("the document has no path for {path}"))?;
        let operation = paths.get(*template).and_then(|item| item.get(method.to_ascii_lowercase()));
        operation.with_context(|| format!("the document has no {method} on {template}"))
    }

    fn response<'a>(&'a self, operation: &'a Value, status: u16) -> Result<&'a Value> {
        let exact = operation.get("responses").and_then(|responses| responses.get(status.to_string()));
        let found = exact.with_context(|| format!("status {status} is not documented"))?;
        let Some(reference) = found.get("$ref").and_then(Value::as_str) else { return Ok(found) };
        let pointer =
            reference.strip_prefix('#').with_context(|| format!("{reference} is not in this document"))?;
        self.0.pointer(pointer).with_context(|| format!("{reference} leads nowhere"))
    }

    /// Adds the document's components to the schema, so that references to `#/components/…` resolve.
    fn validate(&self, schema: &Value, body: &Value) -> Result<()> {
        let whole = json!({ "allOf": [schema], "components": self.0.get("components") });
        let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&whole);
        let validator = validator.map_err(|error| anyhow!("the document's schema is wrong: {error}"))?;
        let problems: Vec<String> =
            validator.iter_errors(body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        if problems.is_empty() { Ok(()) } else { bail!("the body does not fit: {}", problems.join("; ")) }
    }
}

fn text_of<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

const METHODS: [&str; 7] = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"];

/// Whether a path matches a template: the same number of segments, each equal or a parameter.
fn fits(template: &str, path: &str) -> bool {
    let (mut expected, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return true,
            (Some(part), Some(segment)) if part == segment => {}
            (Some(part), Some(segment)) if part.starts_with('{') && !segment.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> OpenApi {
        OpenApi::parse(
            r##"{"openapi":"3.1.0","paths":{
              "/things/{id}":{"get":{"responses":{
                "200":{"description":"","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},
                "404":{"$ref":"#/components/responses/NotFound"}}}},
              "/things/special":{"get":{"responses":{"204":{"description":""}}}}},
             "components":{
              "schemas":{"Thing":{"type":"object","required":["id"],"properties":{"id":{"$ref":"#/components/schemas/Id"}}},
                         "Id":{"type":"string","format":"uuid"}},
              "responses":{"NotFound":{"description":"","content":{"application/json":{"schema":{"type":"object"}}}}}}}"##,
        )
    }

    fn verdict(path: &str, status: u16, body: &Value) -> String {
        document()
            .check_response("GET", path, status, body)
            .map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn what_is_documented_passes() {
        let id = "018f0000-0000-7000-8000-000000000000";
        assert_eq!(verdict("/things/a?x=1", 200, &json!({ "id": id })), "");
        assert_eq!(verdict("/things/a", 404, &json!({})), "");
        assert_eq!(verdict("/things/special", 204, &Value::Null), "", "a literal wins over a parameter");
    }

    #[test]
    fn what_is_not_documented_fails() {
        for (path, status, body, why) in [
            ("/things", 200, json!({}), "no path"),
            ("/things/a/b", 200, json!({}), "no path"),
            ("/things/a", 500, json!({}), "status 500 is not documented"),
            ("/things/a", 200, json!({ "id": 7 }), "/id"),
            ("/things/a", 200, json!({ "id": "x" }), "uuid"),
            ("/things/a", 200, json!({}), "required"),
            ("/things/special", 204, json!({}), "no JSON body"),
        ] {
            let found = verdict(path, status, &body);
            assert!(found.contains(why), "{path} {status} {body}: {found:?}");
        }
        assert!(document().check_response("POST", "/things/a", 200, &json!({})).is_err());
    }

    #[test]
    fn operations_and_their_statuses_are_listed() {
        assert_eq!(document().operations(), ["GET /things/special", "GET /things/{id}"]);
        assert_eq!(document().statuses("GET /things/{id}").expect("it is there"), [200, 404]);
        assert_eq!(document().statuses("GET /things/special").expect("it is there"), [204]);
        assert!(document().statuses("PUT /things/special").is_err());
    }
}
