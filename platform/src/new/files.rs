//! The files of a new module: texts of `template/` with the module's names in place of `{{key}}`, `{{name}}` and
//! `{{port}}`. The queries of its store come with the data that `query!` is checked against, so that it builds without a
//! database.

use contract::license;
use ring::digest::{SHA256, digest};

use crate::bundle::hex;

/// The values of the placeholders.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) key: String,
    /// Display name.
    pub(super) name: String,
    pub(super) port: u16,
}

/// One file to be written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// Below the workspace's root.
    pub(super) path: String,
    pub(super) text: String,
}

/// Path in the module's folder, and the text.
const FILES: [(&str, &str); 17] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.in")),
    ("build.rs", include_str!("template/build.rs.in")),
    ("module.manifest.json", include_str!("template/module.manifest.json.in")),
    ("authz.fragment.json", include_str!("template/authz.fragment.json.in")),
    ("openapi.json", include_str!("template/openapi.json.in")),
    ("LICENSE", license::APACHE_2_0),
    ("migrations/0001_notes.sql", include_str!("template/0001_notes.sql.in")),
    ("src/lib.rs", include_str!("template/lib.rs.in")),
    ("src/operations.rs", include_str!("template/operations.rs.in")),
    ("src/notes/mod.rs", include_str!("template/mod.rs.in")),
    ("src/notes/http.rs", include_str!("template/http.rs.in")),
    ("src/notes/rules.rs", include_str!("template/rules.rs.in")),
    ("src/notes/store.rs", include_str!("template/store.rs.in")),
    ("tests/api/main.rs", include_str!("template/test_main.rs.in")),
    ("tests/api/contract_files.rs", include_str!("template/test_contract_files.rs.in")),
    ("tests/api/gates.rs", include_str!("template/test_gates.rs.in")),
    ("tests/api/notes.rs", include_str!("template/test_notes.rs.in")),
];

/// Placeholder in `store.rs`, the query, and its data for `query!`.
const QUERIES: [(&str, &str, &str); 2] = [
    ("{{query.list}}", include_str!("template/list.sql.in"), include_str!("template/list.json.in")),
    ("{{query.insert}}", include_str!("template/insert.sql.in"), include_str!("template/insert.json.in")),
];

/// Every file of the module.
pub(super) fn of(names: &Names) -> Vec<Written> {
    let fill = |text: &str| {
        let filled = text.replace("{{key}}", &names.key).replace("{{name}}", &names.name);
        filled.replace("{{port}}", &names.port.to_string())
    };
    let queries = QUERIES.map(|(place, query, data)| (place, fill(query.trim_end()), data));
    let mut written: Vec<Written> = FILES
        .iter()
        .map(|(path, text)| {
            let whole =
                queries.iter().fold((*text).to_owned(), |text, (place, query, _)| text.replace(place, query));
            Written { path: format!("modules/{}/{path}", names.key), text: fill(&whole) }
        })
        .collect();
    written.extend(queries.iter().map(|(_, query, data)| {
        let hash = hex(digest(&SHA256, query.as_bytes()).as_ref());
        let quoted = serde_json::Value::from(query.as_str()).to_string();
        let text = fill(data).replace("{{query}}", &quoted).replace("{{hash}}", &hash);
        Written { path: format!(".sqlx/query-{hash}.json"), text: text.trim_end().to_owned() }
    }));
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_to_be_filled_in() {
        let names = Names { key: "demo".to_owned(), name: "Demo".to_owned(), port: 8200 };
        let written = of(&names);
        assert_eq!(written.len(), FILES.len() + QUERIES.len());
        for Written { path, text } in written {
            assert!(!text.contains("{{"), "{path}");
            if std::path::Path::new(&path).extension().is_some_and(|extension| extension == "json") {
                serde_json::from_str::<serde_json::Value>(&text).expect(&path);
            }
        }
    }
}
