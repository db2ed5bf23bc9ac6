//! `frontend.manifest.json`, an optional file of a module: the routes of its pages in the shell, and the feature for
//! each.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::FieldProblem;
use crate::fragment::{Fragment, access_feature};
use crate::manifest::strict::{self, Findings, Members, Node};
use crate::manifest::version;

/// Name of the file.
pub const FILE: &str = "frontend.manifest.json";

/// Every rule that the file violates, for the module with this fragment.
#[must_use]
pub fn check(text: &str, fragment: &Fragment) -> Vec<FieldProblem> {
    let value = match strict::read_json(text) {
        Ok(value) => value,
        Err(problems) => return problems,
    };
    let mut found = Findings::default();
    check_file(&value, fragment, &mut found);
    found.into_problems()
}

/// Always returns `None`: nothing reads the file at run time, so only its problems matter.
fn check_file(value: &Value, fragment: &Fragment, found: &mut Findings) -> Option<()> {
    let file = Node::root("", value).members(&["routeBase", "sdkVersionRange", "routes"], found)?;
    check_base(&file, &fragment.module_key, found);
    if let Some(range) = file.text("sdkVersionRange", found)
        && version::parse_range(range).is_none()
    {
        found.refuse::<()>("sdkVersionRange", "version_range", version::RANGE_RULE);
    }
    let (mut ids, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for route in file.items("routes", strict::MAX_ENTRIES, found)? {
        let Some(route) = route.members(&["id", "path", "featureKey"], found) else { continue };
        check_id(&route, &mut ids, found);
        check_path(&route, &mut paths, found);
        check_feature(&route, fragment, found);
    }
    None
}

fn check_base(file: &Members<'_>, key: &str, found: &mut Findings) {
    let right = format!("/app/{key}");
    if file.text("routeBase", found).is_some_and(|text| text != right) {
        found.refuse::<()>("routeBase", "fixed", format!("exactly {right}"));
    }
}

fn check_id(route: &Members<'_>, ids: &mut BTreeSet<String>, found: &mut Findings) {
    if let Some(id) = route.label("id", found)
        && !ids.insert(id.clone())
    {
        found.refuse::<()>(&route.path_of("id"), "unique", format!("\"{id}\" is another route's"));
    }
}

fn check_path(route: &Members<'_>, paths: &mut BTreeSet<String>, found: &mut Findings) {
    let Some(path) = route.text("path", found) else { return };
    let at = route.path_of("path");
    let Some(rest) = path.strip_prefix('/').filter(|_| path.len() <= strict::MAX_LABEL) else {
        found.refuse::<()>(&at, "path", "a path that begins with /");
        return;
    };
    let segments: Vec<&str> = if rest.is_empty() { Vec::new() } else { rest.split('/').collect() };
    if let Some(wrong) = segments.iter().find(|segment| !is_segment(segment)) {
        let message = format!("\"{wrong}\" is neither a plain segment nor :identifier");
        found.refuse::<()>(&at, "path", message);
        return;
    }
    // Parameter names do not distinguish two paths.
    let shape: Vec<&str> =
        segments.iter().map(|segment| if segment.starts_with(':') { ":" } else { segment }).collect();
    if !paths.insert(shape.join("/")) {
        found.refuse::<()>(&at, "unique", format!("{path} is another route's"));
    }
}

fn is_segment(segment: &str) -> bool {
    if let Some(name) = segment.strip_prefix(':') {
        let first = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        return first && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    }
    !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
}

fn check_feature(route: &Members<'_>, fragment: &Fragment, found: &mut Findings) {
    let Some(key) = route.text("featureKey", found) else { return };
    let access = access_feature(&fragment.module_key);
    if key != access && !fragment.features.iter().any(|feature| feature.key == key) {
        let message = format!("a feature of the fragment, or {access}");
        found.refuse::<()>(&route.path_of("featureKey"), "feature", message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fragment;

    const FRAGMENT: &str = r#"{
        "moduleKey": "crm", "roles": [], "objects": [], "relations": {}, "fieldCatalog": [], "fieldSets": [],
        "rowScopes": [], "bootstrapPolicy": {"seedCompanyCreatorObjectRelations": []},
        "features": [{"featureKey": "crm.leads.read", "label": "Leads", "scopeType": "company",
            "requiresCompany": true, "accessRuleKind": "relation", "accessRulePayload": {}, "sortOrder": 1,
            "isSidebarEntry": true}]
    }"#;

    fn sample() -> Value {
        json!({
            "routeBase": "/app/crm",
            "sdkVersionRange": "^1.2",
            "_note": "a comment",
            "routes": [
                {"id": "home", "path": "/", "featureKey": "crm.access"},
                {"id": "leads", "path": "/leads", "featureKey": "crm.leads.read"},
                {"id": "lead", "path": "/leads/:leadId", "featureKey": "crm.leads.read"}
            ]
        })
    }

    fn problems(value: &Value) -> Vec<(String, String)> {
        let fragment = fragment::parse(FRAGMENT, "crm").expect("a right fragment");
        let found = check(&value.to_string(), &fragment);
        found.into_iter().map(|problem| (problem.path, problem.rule.into_owned())).collect()
    }

    #[track_caller]
    fn refuses(pointer: &str, value: Value, path: &str, rule: &str) {
        let mut file = sample();
        *file.pointer_mut(pointer).expect(pointer) = value;
        assert_eq!(problems(&file), [(path.to_owned(), rule.to_owned())]);
    }

    #[test]
    fn a_right_file_has_no_problem() {
        assert_eq!(problems(&sample()), []);
    }

    #[test]
    fn its_base_and_range_are_the_modules() {
        refuses("/routeBase", json!("/app/docs"), "routeBase", "fixed");
        refuses("/sdkVersionRange", json!("^1 || ^2"), "sdkVersionRange", "version_range");
        assert_eq!(problems(&json!([])), [(String::new(), "type".to_owned())]);
        let mut file = sample();
        file.as_object_mut().expect("an object").insert("theme".to_owned(), json!("dark"));
        assert_eq!(problems(&file), [("theme".to_owned(), "unknown_key".to_owned())]);
    }

    #[test]
    fn routes_have_ids_and_paths_of_their_own() {
        refuses("/routes/1/id", json!("home"), "routes[1].id", "unique");
        refuses("/routes/1/path", json!("/"), "routes[1].path", "unique");
        refuses("/routes/1/path", json!("/leads/:other"), "routes[2].path", "unique");
    }

    #[test]
    fn parameters_are_identifiers() {
        for bad in ["leads", "", "//", "/:", "/:1a", "/:lead-id", "/a b", "/leads/", "/?x", "/:a:b"] {
            refuses("/routes/2/path", json!(bad), "routes[2].path", "path");
        }
    }

    #[test]
    fn a_route_is_opened_by_a_feature_of_the_module() {
        refuses("/routes/1/featureKey", json!("docs.access"), "routes[1].featureKey", "feature");
        refuses("/routes/1/featureKey", json!("crm.leads.write"), "routes[1].featureKey", "feature");
    }
}
