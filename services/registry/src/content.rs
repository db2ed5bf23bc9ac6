//! Fingerprints of contracts. Two JSON values that differ only in the order of object members have the same
//! fingerprint.

use ring::digest::{SHA256, digest};
use serde_json::Value;

/// Returns the SHA-256 of the value's canonical text.
pub(crate) fn fingerprint(value: &Value) -> Vec<u8> {
    let mut text = String::new();
    write(value, &mut text);
    digest(&SHA256, text.as_bytes()).as_ref().to_vec()
}

/// Writes JSON without white space and with members sorted by name. The parser that read the value bounds its depth.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (name, member) in members {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(member, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_of_members_does_not_count_and_everything_else_does() {
        let read = |text: &str| fingerprint(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(read(r#"{"a":1,"b":[1,{"c":2,"d":3}]}"#), read(r#"{"b":[1,{"d":3,"c":2}],"a":1}"#));
        let different =
            [json!({"a": 1}), json!({"a": "1"}), json!([1]), json!(["a", 1]), json!([1, "a"]), json!([[1]])];
        for (at, left) in different.iter().enumerate() {
            for right in different.iter().skip(at + 1) {
                assert_ne!(fingerprint(left), fingerprint(right), "{left} {right}");
            }
        }
    }
}
