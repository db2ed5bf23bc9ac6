//! Each rule between modules: what it accepts and what it refuses.

use serde_json::{Value, json};

use super::*;
use crate::manifest::tests::{sample, with};

/// A module `key` on `port` that needs `needs`.
fn module(key: &str, port: u16, needs: &[(&str, &str)]) -> ModuleContract {
    let dependency =
        |(key, range): &(&str, &str)| json!({"moduleKey": key, "versionRange": range, "required": true});
    let needs: Vec<Value> = needs.iter().map(dependency).collect();
    let mut manifest = with(sample(), "/moduleKey", json!(key));
    manifest = with(manifest, "/service/basePath", json!(format!("/api/{key}")));
    manifest = with(manifest, "/data/postgresSchema", json!(key));
    manifest = with(manifest, "/service/port", json!(port));
    manifest = with(manifest, "/dependencies", json!(needs));
    parse_module(key, &manifest.to_string(), &fragment(key, &json!({}), "list").to_string())
        .expect("a good module")
}

fn fragment(key: &str, relations: &Value, action: &str) -> Value {
    json!({
        "moduleKey": key, "roles": [], "objects": [], "relations": relations,
        "features": [{
            "featureKey": format!("{key}.things.{action}"), "label": "Things", "scopeType": "company",
            "requiresCompany": true, "accessRuleKind": "relation", "accessRulePayload": {}, "sortOrder": 1,
            "isSidebarEntry": false
        }],
        "fieldCatalog": [], "fieldSets": [], "rowScopes": [],
        "bootstrapPolicy": {"seedCompanyCreatorObjectRelations": []}
    })
}

fn with_relations(mut module: ModuleContract, relations: &Value) -> ModuleContract {
    module.fragment.relations = fragment::parse_relations(relations, "relations").expect("good relations");
    module
}

fn found(modules: &[ModuleContract]) -> Vec<(String, String, String)> {
    let rule = |found: FileProblem| (found.module_key, found.problem.path, found.problem.rule.into_owned());
    check(modules).into_iter().map(rule).collect()
}

fn problem(key: &str, path: &str, rule: &str) -> (String, String, String) {
    (key.to_owned(), path.to_owned(), rule.to_owned())
}

#[test]
fn a_set_without_clashes_passes() {
    let modules = [
        module("aa", 1, &[]),
        module("bb", 2, &[("aa", "^1")]),
        module("cc", 3, &[("aa", "*"), ("bb", ">=1 <2")]),
    ];
    assert_eq!(check(&modules), []);
}

#[test]
fn keys_and_ports_belong_to_one_module() {
    let modules = [module("aa", 1, &[]), module("bb", 1, &[])];
    assert_eq!(found(&modules), [problem("bb", "service.port", "unique")]);
    let twice = [module("aa", 1, &[]), module("aa", 2, &[])];
    assert_eq!(found(&twice), [problem("aa", "moduleKey", "unique"), problem("aa", "features", "unique")]);
}

#[test]
fn object_types_belong_to_one_module() {
    let thing = json!({"thing": {"company_module": {"this": true}}});
    let modules =
        [with_relations(module("aa", 1, &[]), &thing), with_relations(module("bb", 2, &[]), &thing)];
    assert_eq!(found(&modules), [problem("bb", "relations.thing", "unique")]);
}

#[test]
fn feature_keys_belong_to_one_module() {
    let mut thief = module("bb", 2, &[]);
    thief.fragment.features = module("aa", 1, &[]).fragment.features;
    assert_eq!(found(&[module("aa", 1, &[]), thief]), [problem("bb", "features", "unique")]);
}

#[test]
fn dependencies_are_there_and_in_range() {
    assert_eq!(
        found(&[module("aa", 1, &[("zz", "*")])]),
        [problem("aa", "dependencies[0].moduleKey", "dependency")]
    );
    assert_eq!(
        found(&[module("aa", 1, &[]), module("bb", 2, &[("aa", "^2")])]),
        [problem("bb", "dependencies[0].versionRange", "dependency_version")]
    );
}

#[test]
fn a_cycle_is_named() {
    let modules = [
        module("aa", 1, &[("bb", "*")]),
        module("bb", 2, &[("cc", "*")]),
        module("cc", 3, &[("bb", "*")]),
        module("dd", 4, &[]),
    ];
    let problems = check(&modules);
    let [only] = problems.as_slice() else { panic!("{problems:?}") };
    let expected =
        "bb/module.manifest.json: dependencies: the dependencies form a cycle: bb -> cc -> bb (cycle)";
    assert_eq!(only.to_string(), expected);
}

#[test]
fn a_tuple_to_userset_leads_to_a_relation_of_some_type() {
    let leads_to = |relation: &str| {
        json!({"note": {
            "company_module": {"this": true},
            "reader": {"union": [{"this": true}, {"tupleToUserset": {"tupleset": "company_module", "computedUserset": relation}}]}
        }})
    };
    let folder = json!({"folder": {"company_module": {"this": true}, "keeper": {"this": true}}});
    let owner = with_relations(module("bb", 2, &[]), &folder);
    let of_base = with_relations(module("aa", 1, &[]), &leads_to("admin"));
    assert_eq!(found(&[of_base, owner.clone()]), []);
    let of_other = with_relations(module("aa", 1, &[]), &leads_to("keeper"));
    assert_eq!(found(&[of_other, owner.clone()]), []);
    let nowhere = with_relations(module("aa", 1, &[]), &leads_to("nobody"));
    let path = "relations.note.reader.union[1].tupleToUserset.computedUserset";
    assert_eq!(found(&[nowhere, owner]), [problem("aa", path, "target")]);
}

#[test]
fn the_files_of_a_module_carry_its_name() {
    let manifest = sample().to_string();
    let good = fragment("crm", &json!({}), "list").to_string();
    parse_module("crm", &manifest, &good).expect("accepted");
    let wrong = parse_module("erp", &manifest, &good).expect_err("the fragment's key and the manifest's");
    let files: Vec<_> = wrong.iter().map(|found| (found.file, found.problem.path.as_str())).collect();
    let expected = ["moduleKey", "features[0].featureKey"].map(|path| ("authz.fragment.json", path));
    assert_eq!(files, expected);
    let erp = fragment("erp", &json!({}), "list").to_string();
    let wrong = parse_module("erp", &manifest, &erp).expect_err("the manifest's key");
    assert_eq!(
        wrong[0].to_string(),
        "erp/module.manifest.json: moduleKey: exactly erp, the module's name (fixed)"
    );
    assert_eq!(parse_module("crm", "{", "{").expect_err("both").len(), 2);
}
