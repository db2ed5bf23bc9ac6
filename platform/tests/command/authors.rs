//! `platform check --module` and `--app`: what an author learns before anything runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Platform, Run};

/// A folder with a copy of a shipped module, for a test to change.
struct Module {
    folder: PathBuf,
}

impl Module {
    fn copy_of(key: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../modules").join(key);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("module-{}", Uuid::now_v7()));
        fs::create_dir_all(folder.join("migrations")).expect("a folder");
        for name in ["module.manifest.json", "authz.fragment.json", "openapi.json", "LICENSE"] {
            fs::copy(from.join(name), folder.join(name)).expect(name);
        }
        for entry in fs::read_dir(from.join("migrations")).expect("migrations") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            fs::copy(&path, folder.join("migrations").join(name)).expect("a migration");
        }
        Self { folder }
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::write(self.folder.join(name), text).expect(name);
        self
    }

    fn without(self, name: &str) -> Self {
        fs::remove_file(self.folder.join(name)).expect(name);
        self
    }

    /// Changes one value of a JSON file.
    fn changed(self, name: &str, pointer: &str, value: Value) -> Self {
        let text = fs::read_to_string(self.folder.join(name)).expect(name);
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        *file.pointer_mut(pointer).expect(pointer) = value;
        self.with(name, &file.to_string())
    }

    fn check(&self) -> Run {
        Platform::new().run(&["check", "--module", self.folder.to_str().expect("a UTF-8 path")])
    }
}

fn check_app(manifest: &str, options: &[&str]) -> Run {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("app-{}.json", Uuid::now_v7()));
    fs::write(&file, manifest).expect("a file");
    let file = file.to_str().expect("a UTF-8 path").to_owned();
    let arguments = ["check", "--app", file.as_str()];
    Platform::new().run(&[&arguments[..], options].concat())
}

fn app() -> Value {
    json!({
        "key": "crm", "displayName": "CRM", "version": "1.0.0", "serviceClientId": "crm-service",
        "features": ["crm.leads.read"],
        "authzFragment": {"lead": {"company_module": {"this": true}, "owner": {"this": true}}}
    })
}

#[test]
fn every_shipped_module_passes() {
    for key in ["timesheet", "notification", "helpdesk", "docs"] {
        let run = Module::copy_of(key).check();
        run.succeeded();
        assert_eq!(run.out.trim(), "no problems", "{key}");
    }
}

#[test]
fn the_problems_of_all_files_are_told_together() {
    let run = Module::copy_of("docs")
        .changed("module.manifest.json", "/service/port", json!(0))
        .changed("authz.fragment.json", "/moduleKey", json!("other"))
        .changed("openapi.json", "/servers/0/url", json!("/api/other"))
        .with("frontend.manifest.json", "{}")
        .with("migrations/0099_more.sql", "DROP TABLE org.members;\nSET search_path = org;\n")
        .check();
    run.refused(&[
        "docs/module.manifest.json: service.port",
        "docs/authz.fragment.json: moduleKey",
        "docs/openapi.json: servers[0].url",
        "docs/frontend.manifest.json",
        "docs/migrations/0099_more.sql: 0099 stands where",
        "(numbering)",
        "docs/migrations/0099_more.sql: statement 1 (line 1)",
        "(outside_fence)",
        "statement 2 (line 2)",
        "(search_path)",
    ]);
}

#[test]
fn a_license_is_its_canonical_text_and_a_missing_file_is_named() {
    Module::copy_of("docs")
        .with("LICENSE", "Do what you want.")
        .check()
        .refused(&["docs/LICENSE", "license_text"]);
    let run = Module::copy_of("docs").without("openapi.json").without("LICENSE").check();
    run.refused(&["openapi.json: cannot be read", "LICENSE: cannot be read", "(required)"]);
}

#[test]
fn a_frontend_manifest_may_be_there_and_is_then_checked() {
    let right = json!({
        "routeBase": "/app/docs", "sdkVersionRange": "^1",
        "routes": [{"id": "home", "path": "/", "featureKey": "docs.access"}]
    });
    let module = Module::copy_of("docs").with("frontend.manifest.json", &right.to_string());
    module.check().succeeded();
    let wrong = module.changed("frontend.manifest.json", "/routes/0/featureKey", json!("helpdesk.access"));
    wrong.check().refused(&["docs/frontend.manifest.json: routes[0].featureKey", "(feature)"]);
}

#[test]
fn a_module_is_judged_beside_those_that_ship() {
    let run = Module::copy_of("docs").changed("module.manifest.json", "/service/port", json!(8180)).check();
    run.refused(&["docs/module.manifest.json: service.port", "belongs to helpdesk already"]);
    let needs = json!([{"moduleKey": "payroll", "versionRange": "^1", "required": true}]);
    let run = Module::copy_of("docs").changed("module.manifest.json", "/dependencies", needs).check();
    run.refused(&["dependencies[0].moduleKey", "payroll"]);
}

#[test]
fn an_apps_manifest_is_judged_as_its_registration_will() {
    let run = check_app(&app().to_string(), &[]);
    run.succeeded();
    assert_eq!(run.out.trim(), "no problems");
    let mut wrong = app();
    wrong["features"] = json!(["docs.read"]);
    wrong["authzFragment"]["lead"]["company_module"] = json!({"this": false});
    check_app(&wrong.to_string(), &[]).refused(&["features[0]", "authzFragment.lead.company_module"]);
    let mut module = app();
    module["key"] = json!("docs");
    check_app(&module.to_string(), &[]).refused(&["key:"]);
    check_app("{", &[]).refused(&["not JSON"]);
    check_app("{}", &[]).refused(&["key: required", "authzFragment: required"]);
}

#[test]
fn problems_are_json_when_that_is_asked_for() {
    let run = check_app(&app().to_string(), &["--json"]);
    run.succeeded();
    assert_eq!(run.out.trim(), r#"{"problems":[]}"#);
    let mut wrong = app();
    wrong["version"] = json!("1");
    let run = check_app(&wrong.to_string(), &["--json"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    let answer: Value = serde_json::from_str(&run.out).expect("JSON on standard output");
    assert_eq!(answer["problems"][0]["path"], "version");
    assert_eq!(answer["problems"][0]["rule"], "semver");
    assert_eq!(answer["problems"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_platform_itself_is_checked_as_json_too() {
    let run = Platform::new().run(&["check", "--json"]);
    run.succeeded();
    assert_eq!(run.out.trim(), r#"{"problems":[]}"#);
}

#[test]
fn a_folder_that_is_not_there_is_a_problem_and_two_subjects_are_a_usage_error() {
    Platform::new().run(&["check", "--module", "/nonexistent/module"]).refused(&["is not a folder"]);
    Platform::new().run(&["check", "--app", "/nonexistent/app.json"]).refused(&["cannot be read"]);
    assert_eq!(Platform::new().run(&["check", "--app", "a", "--module", "b"]).code, Some(2));
}
