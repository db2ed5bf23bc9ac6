//! Copies the components that all modules share into each module's document, which stays self-contained. A test in
//! every module compares the two.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde_json::value::RawValue;

const SHARED: &str = "kit/contract/src/openapi/shared.json";
const TEMPLATE: &str = "platform/src/new/template/openapi.json.in";

/// The verbatim components of a document, by section and name.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    components: BTreeMap<&'a str, BTreeMap<&'a str, &'a RawValue>>,
}

pub(crate) fn renew(root: &Path) -> anyhow::Result<Vec<String>> {
    let shared = std::fs::read_to_string(root.join(SHARED))?;
    for path in documents(root)? {
        let text = std::fs::read_to_string(&path)?;
        let renewed = with_shared(&text, &shared).with_context(|| path.display().to_string())?;
        if renewed != text {
            std::fs::write(&path, renewed)?;
        }
    }
    Ok(Vec::new())
}

fn documents(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![root.join(TEMPLATE)];
    for folder in ["modules", "examples"] {
        for entry in std::fs::read_dir(root.join(folder))? {
            let document = entry?.path().join("openapi.json");
            if document.is_file() {
                found.push(document);
            }
        }
    }
    Ok(found)
}

/// Replaces each component of the document that is also shared with the shared one. Both are indented by two spaces.
fn with_shared(text: &str, shared: &str) -> anyhow::Result<String> {
    let own: Document<'_> = serde_json::from_str(text)?;
    let shared: Document<'_> = serde_json::from_str(shared)?;
    let mut places: Vec<(Range<usize>, &str)> = Vec::new();
    for (section, components) in &shared.components {
        for (name, component) in components {
            if let Some(stands) = own.components.get(section).and_then(|own| own.get(name)) {
                places.push((place(text, stands.get()), component.get()));
            }
        }
    }
    places.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut renewed = text.to_owned();
    for (range, component) in places {
        renewed.replace_range(range, component);
    }
    Ok(renewed)
}

/// The range of a part that was borrowed from a text.
fn place(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::with_shared;

    #[test]
    fn shared_components_replace_those_of_their_name_and_nothing_else() {
        let shared = r#"{"components": {"schemas": {"Error": {"new": 1}, "Absent": {"new": 2}}}}"#;
        let text = r#"{"z": [ 1 ], "components": {"responses": {"Error": {"a": 1}}, "schemas": {"Own": {"old":  1}, "Error": {"old": 1}}}}"#;
        let renewed = r#"{"z": [ 1 ], "components": {"responses": {"Error": {"a": 1}}, "schemas": {"Own": {"old":  1}, "Error": {"new": 1}}}}"#;
        assert_eq!(with_shared(text, shared).expect("documents"), renewed);
    }
}
