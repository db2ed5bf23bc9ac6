//! Tests the published JSON Schemas with the same cases: a schema accepts what the parser accepts, refuses what is
//! wrong in a single value, and ignores rules between values. It is never stricter than the parser.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::cases::{self, Case};

const MANIFEST: &str = include_str!("../../schemas/module.manifest.schema.json");
const FRAGMENT: &str = include_str!("../../schemas/authz.fragment.schema.json");
const APP: &str = include_str!("../../schemas/app.manifest.schema.json");

fn validator(schema: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("a schema is a JSON Schema");
    jsonschema::draft202012::new(&schema).expect("a schema")
}

fn agrees(schema: &Validator, cases: Vec<Case>, file: impl Fn(Value) -> Value) {
    for Case { rule, accepted, refused, path, schema: refuses, shown: [good, bad] } in cases {
        let accepted = file(accepted);
        let problem = schema.validate(&accepted).err().map(|error| error.to_string());
        assert_eq!(problem, None, "{rule} accepts {good}");
        assert_eq!(schema.is_valid(&file(refused)), !refuses, "{rule} at {path}: {bad}");
    }
}

#[test]
fn of_the_manifest() {
    agrees(&validator(MANIFEST), cases::cases(cases::MANIFEST), |file| file);
}

#[test]
fn of_the_fragment() {
    let schema = validator(FRAGMENT);
    agrees(&schema, cases::cases(cases::FRAGMENT), |file| file);
    agrees(&schema, cases::cases(cases::RELATIONS), |relations| {
        let empty = ["/roles", "/objects", "/features", "/rowScopes"];
        let sample = cases::sample(cases::FRAGMENT);
        let bare = empty.into_iter().fold(sample, |file, at| cases::with(&file, at, json!([])));
        cases::with(&bare, "/relations", relations)
    });
}

#[test]
fn of_an_apps_relations() {
    agrees(&validator(APP), cases::cases(cases::RELATIONS), |relations| {
        json!({"key": "crm", "displayName": "CRM", "version": "1.0.0", "serviceClientId": "crm-backend",
            "features": ["crm.deals.read"], "authzFragment": relations})
    });
}

#[test]
fn of_an_apps_manifest() {
    agrees(&validator(APP), cases::cases(cases::APP), |file| file);
}

/// Authors copy from the shipped modules.
#[test]
fn of_what_ships() {
    let (manifest, fragment) = (validator(MANIFEST), validator(FRAGMENT));
    for key in ["timesheet", "notification", "helpdesk", "docs"] {
        for (schema, name) in [(&manifest, "module.manifest.json"), (&fragment, "authz.fragment.json")] {
            let path = format!("{}/../../modules/{key}/{name}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).expect(&path);
            let file: Value = serde_json::from_str(&text).expect(&path);
            let problem = schema.validate(&file).err().map(|error| error.to_string());
            assert_eq!(problem, None, "{path}");
        }
    }
}
