//! Lists of texts in a body. Each item is checked separately; problems name its index.

use contract::Fields;
use serde_json::Value;

/// Reads a required list of at most `max` items that `parse` accepts.
pub(crate) fn texts<T>(
    fields: &mut Fields<'_>,
    name: &str,
    max: usize,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(value) = fields.raw(name) else { return fields.refuse(name, "required", "required") };
    let Value::Array(items) = value else { return fields.refuse(name, "type", "a list") };
    if items.len() > max {
        return fields.refuse(name, "length", format!("at most {max} items"));
    }
    let read: Vec<Option<T>> = items
        .iter()
        .enumerate()
        .map(|(index, item)| one(fields, &format!("{name}[{index}]"), item, &parse))
        .collect();
    read.into_iter().collect()
}

fn one<T>(fields: &mut Fields<'_>, path: &str, item: &Value, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let Value::String(text) = item else { return fields.refuse(path, "type", "a string") };
    match parse(text) {
        Some(value) => Some(value),
        None => fields.refuse(path, "length", "1 to 255 characters without control characters"),
    }
}
