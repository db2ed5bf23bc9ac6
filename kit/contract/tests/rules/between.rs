//! The rules between modules, as sets of modules that fit together and sets that do not.

use contract::FieldProblem;
use contract::fragment::parse_relations;
use contract::manifest::set::{FileProblem, ModuleContract, check, parse_module};
use contract::rules::BETWEEN;
use serde_json::{Value, json};

use crate::cases::{FRAGMENT, MANIFEST, sample, with};
use crate::table::{Row, broken};

/// A module `key` on `port` that depends on `needs`, without object types.
fn module(key: &str, port: u16, needs: &[(&str, &str)]) -> ModuleContract {
    let (manifest, fragment) = files(key, port, needs);
    parse_module(key, &manifest, &fragment).expect("a good module")
}

fn files(key: &str, port: u16, needs: &[(&str, &str)]) -> (String, String) {
    let need =
        |(key, range): &(&str, &str)| json!({"moduleKey": key, "versionRange": range, "required": true});
    let changes = [
        ("/moduleKey", json!(key)),
        ("/service/basePath", json!(format!("/api/{key}"))),
        ("/service/port", json!(port)),
        ("/data/postgresSchema", json!(key)),
        ("/dependencies", json!(needs.iter().map(need).collect::<Vec<_>>())),
    ];
    let manifest = changes.into_iter().fold(sample(MANIFEST), |file, (at, value)| with(&file, at, value));
    let empty = ["/roles", "/objects", "/features", "/rowScopes"];
    let fragment = empty.into_iter().fold(sample(FRAGMENT), |file, at| with(&file, at, json!([])));
    let fragment = with(&with(&fragment, "/moduleKey", json!(key)), "/relations", json!({}));
    (manifest.to_string(), fragment.to_string())
}

fn of_type(mut module: ModuleContract, name: &str, relation: &Value) -> ModuleContract {
    let relations = json!({name: {"company_module": {"this": true}, "seen": relation}});
    module.fragment.relations = parse_relations(&relations, "relations").expect("good relations");
    module
}

fn with_features_of(mut module: ModuleContract, key: &str) -> ModuleContract {
    let fragment =
        with(&sample(FRAGMENT), "/moduleKey", json!(key)).to_string().replace("crm.", &format!("{key}."));
    module.fragment.features = contract::fragment::parse(&fragment, key).expect("a good fragment").features;
    module
}

/// Tries every pair.
pub(crate) fn rows() -> Vec<Row> {
    let this = || json!({"this": true});
    let follow = |to: &str| json!({"tupleToUserset": {"tupleset": "company_module", "computedUserset": to}});
    let (aa, bb) = (|| module("aa", 8200, &[]), || module("bb", 8201, &[]));
    let needs = |key: &str, port, on: &str, range: &str| module(key, port, &[(on, range)]);
    let mut rows = vec![folder()];
    rows.extend([
        pair("module_key", "moduleKey", &[aa(), bb()], &[aa(), module("aa", 8201, &[])]),
        pair("port", "service.port", &[aa(), bb()], &[aa(), module("bb", 8200, &[])]),
        pair("port", "service.port", &[aa(), bb()], &[aa(), module("bb", 8140, &[])]),
        pair(
            "object_type",
            "relations.deal",
            &[of_type(aa(), "deal", &this()), of_type(bb(), "lead", &this())],
            &[of_type(aa(), "deal", &this()), of_type(bb(), "deal", &this())],
        ),
        pair(
            "feature_key",
            "features",
            &[with_features_of(aa(), "aa"), with_features_of(bb(), "bb")],
            &[with_features_of(aa(), "aa"), with_features_of(bb(), "aa")],
        ),
        pair(
            "dependency",
            "dependencies[0].moduleKey",
            &[aa(), needs("bb", 8201, "aa", "*")],
            &[aa(), needs("bb", 8201, "zz", "*")],
        ),
        pair(
            "dependency_version",
            "dependencies[0].versionRange",
            &[aa(), needs("bb", 8201, "aa", "^1.2")],
            &[aa(), needs("bb", 8201, "aa", "^1.3")],
        ),
        pair(
            "cycle",
            "dependencies",
            &[aa(), needs("bb", 8201, "aa", "*")],
            &[needs("aa", 8200, "bb", "*"), needs("bb", 8201, "aa", "*")],
        ),
        pair(
            "target",
            "relations.deal.seen.tupleToUserset.computedUserset",
            &[of_type(aa(), "deal", &follow("seen")), of_type(bb(), "lead", &this())],
            &[of_type(aa(), "deal", &follow("nobody")), of_type(bb(), "lead", &this())],
        ),
    ]);
    rows
}

fn pair(rule: &str, path: &str, accepted: &[ModuleContract; 2], refused: &[ModuleContract; 2]) -> Row {
    let id = format!("between.{rule}");
    assert_eq!(check(accepted), [], "{id}");
    broken(&id, path, BETWEEN, &fields(check(refused)), str::to_owned);
    Row { rule: id, shown: [show(accepted), show(refused)], path: path.to_owned() }
}

fn folder() -> Row {
    let (manifest, _) = files("aa", 8200, &[]);
    let (_, fragment) = files("bb", 8200, &[]);
    let problems = parse_module("bb", &manifest, &fragment).expect_err("shipped under another name");
    broken("between.folder", "moduleKey", BETWEEN, &fields(problems), str::to_owned);
    let shown = ["aa shipped as aa", "aa shipped as bb"].map(ToOwned::to_owned);
    Row { rule: "between.folder".to_owned(), shown, path: "moduleKey".to_owned() }
}

fn fields(problems: Vec<FileProblem>) -> Vec<FieldProblem> {
    problems.into_iter().map(|found| found.problem).collect()
}

fn show(modules: &[ModuleContract]) -> String {
    let one = |module: &ModuleContract| {
        let manifest = &module.manifest;
        let needs =
            manifest.dependencies.iter().map(|need| format!(" needs {} {}", need.module_key, need.range));
        let types = module.fragment.relations.keys().map(|name| format!(" type {name}"));
        let features = module.fragment.features.iter().map(|feature| format!(" feature {}", feature.key));
        let rest: String = needs.chain(types).chain(features).collect();
        format!("{}:{}{rest}", manifest.key, manifest.service.port)
    };
    modules.iter().map(one).collect::<Vec<_>>().join(", ")
}
