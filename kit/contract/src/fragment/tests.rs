//! Each rule of the fragment: what it accepts and what it refuses, by path and rule.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::manifest::tests::{any_json, named, with, without};

fn sample() -> Value {
    json!({
        "moduleKey": "crm",
        "roles": [{
            "roleKey": "crm_admin", "label": "Admin", "scopeType": "company", "grantsShellAccess": true,
            "seedCompanyCreatorRole": true, "sortOrder": 10
        }],
        "objects": [{
            "objectType": "deal", "label": "Deal", "scopeKind": "object", "parentKind": "company_module",
            "managerRelation": "owner", "grantableRelations": ["viewer"], "showInPermissionUi": true, "sortOrder": 10
        }],
        "relations": {"deal": {
            "company_module": {"this": true},
            "owner": {"this": true},
            "viewer": {"union": [
                {"this": true},
                {"computedUserset": "owner"},
                {"tupleToUserset": {"tupleset": "company_module", "computedUserset": "admin"}}
            ]}
        }},
        "features": [{
            "featureKey": "crm.deals.read", "label": "Deals", "scopeType": "company", "requiresCompany": true,
            "accessRuleKind": "relation", "accessRulePayload": {"objectType": "deal", "relation": "viewer"},
            "sortOrder": 10, "isSidebarEntry": true
        }],
        "fieldCatalog": [], "fieldSets": [],
        "rowScopes": [{"entityType": "deal", "rules": [{"any": "thing"}]}],
        "bootstrapPolicy": {"seedCompanyCreatorObjectRelations": []}
    })
}

fn accepts(pointer: &str, value: Value) {
    let file = with(sample(), pointer, value);
    parse(&file.to_string(), "crm").unwrap_or_else(|problems| panic!("{pointer}: {problems:?}"));
}

fn refuses(pointer: &str, value: Value, path: &str, rule: &str) {
    let file = with(sample(), pointer, value);
    let problems = parse(&file.to_string(), "crm").expect_err(pointer);
    assert_eq!(named(&problems), [(path, rule)], "{pointer}");
}

/// A type with the expression under test as its relation `seen`.
fn seen(expression: &Value) -> Value {
    json!({"deal": {"company_module": {"this": true}, "owner": {"this": true}, "seen": expression}})
}

fn accepts_expression(expression: &Value) -> Expression {
    let relations = parse_relations(&seen(expression), "authzFragment").expect("accepted");
    relations["deal"]["seen"].clone()
}

fn refuses_expression(expression: &Value, below: &str, rule: &str) {
    let problems = parse_relations(&seen(expression), "authzFragment").expect_err("refused");
    assert_eq!(
        named(&problems),
        [(format!("authzFragment.deal.seen{below}").as_str(), rule)],
        "{expression}"
    );
}

#[test]
fn the_sample_is_read_whole() {
    let fragment = parse(&sample().to_string(), "crm").expect("accepted");
    assert_eq!(
        fragment.features[0].rule,
        AccessRule::Relation { object_type: "deal".to_owned(), relation: "viewer".to_owned() }
    );
    assert_eq!(fragment.relations["deal"].len(), 3);
    assert_eq!(fragment.row_scopes[0].entity_type, "deal");
    let empty = json!({
        "moduleKey": "crm", "roles": [], "objects": [], "relations": {}, "features": [], "fieldCatalog": [],
        "fieldSets": [], "rowScopes": [], "bootstrapPolicy": {"seedCompanyCreatorObjectRelations": []}
    });
    parse(&empty.to_string(), "crm").expect("a module without object types");
}

#[test]
fn each_expression_is_read_as_what_it_means() {
    let text = ToOwned::to_owned;
    assert_eq!(accepts_expression(&json!({"this": true})), Expression::This);
    assert_eq!(
        accepts_expression(&json!({"_why": "so", "computedUserset": "owner"})),
        Expression::Computed(text("owner"))
    );
    let follow =
        json!({"tupleToUserset": {"tupleset": "company_module", "computedUserset": "admin", "_": 1}});
    let followed = Expression::TupleTo { tupleset: text("company_module"), computed: text("admin") };
    assert_eq!(accepts_expression(&follow), followed);
    let union = Expression::Union(vec![Expression::This, followed]);
    assert_eq!(accepts_expression(&json!({"union": [{"this": true}, follow]})), union);
}

#[test]
fn an_expression_outside_the_grammar_is_named() {
    refuses_expression(&json!({"this": false}), ".this", "this");
    refuses_expression(&json!({"this": 1}), ".this", "this");
    refuses_expression(&json!({"computedUserset": "nobody"}), ".computedUserset", "relation");
    refuses_expression(&json!({"computedUserset": 1}), ".computedUserset", "type");
    refuses_expression(&json!({"union": []}), ".union", "union");
    refuses_expression(&json!({"union": {}}), ".union", "type");
    refuses_expression(
        &json!({"union": [{"this": true}, {"computedUserset": "nobody"}]}),
        ".union[1].computedUserset",
        "relation",
    );
    for operator in ["intersection", "exclusion", "difference", "wildcard", "condition"] {
        refuses_expression(&json!({operator: []}), &format!(".{operator}"), "operator");
    }
    refuses_expression(&json!({}), "", "operator");
    refuses_expression(&json!({"this": true, "computedUserset": "owner"}), "", "operator");
    refuses_expression(&json!("this"), "", "type");
}

#[test]
fn a_tuple_to_userset_names_both_relations() {
    let follow = |inner: Value| json!({"tupleToUserset": inner});
    refuses_expression(
        &follow(json!({"tupleset": "nobody", "computedUserset": "admin"})),
        ".tupleToUserset.tupleset",
        "relation",
    );
    refuses_expression(&follow(json!({"tupleset": "owner"})), ".tupleToUserset.computedUserset", "required");
    refuses_expression(&follow(json!({"computedUserset": "admin"})), ".tupleToUserset.tupleset", "required");
    let strange = json!({"tupleset": "owner", "computedUserset": "admin", "when": 1});
    refuses_expression(&follow(strange), ".tupleToUserset.when", "unknown_key");
}

#[test]
fn nesting_has_a_limit() {
    let nested =
        |levels: usize| (1..levels).fold(json!({"this": true}), |inner, _| json!({"union": [inner]}));
    accepts_expression(&nested(MAX_NESTING));
    refuses_expression(&nested(MAX_NESTING + 1), &".union[0]".repeat(MAX_NESTING), "nesting");
}

#[test]
fn types_and_relations_have_limits() {
    let anchor = json!({"company_module": {"this": true}});
    let types =
        |count: usize| Value::Object((0..count).map(|n| (format!("type{n}"), anchor.clone())).collect());
    assert_eq!(parse_relations(&types(MAX_TYPES), "relations").map(|found| found.len()), Ok(MAX_TYPES));
    let problems = parse_relations(&types(MAX_TYPES + 1), "relations").expect_err("one too many");
    assert_eq!(named(&problems), [("relations", "limit")]);
    let of_type = |count: usize| {
        let mut one = anchor.clone();
        for n in 1..count {
            one[format!("relation{n}")] = json!({"this": true});
        }
        json!({"deal": one})
    };
    parse_relations(&of_type(MAX_RELATIONS), "relations").expect("at the limit");
    let problems = parse_relations(&of_type(MAX_RELATIONS + 1), "relations").expect_err("one too many");
    assert_eq!(named(&problems), [("relations.deal", "limit")]);
}

#[test]
fn every_type_is_anchored() {
    for anchor in
        [json!({}), json!({"company_module": {"computedUserset": "owner"}, "owner": {"this": true}})]
    {
        let problems = parse_relations(&json!({"deal": anchor}), "relations").expect_err("no anchor");
        assert_eq!(named(&problems), [("relations.deal.company_module", "anchor")]);
    }
    let broken = json!({"deal": {"company_module": {"this": false}}});
    let problems = parse_relations(&broken, "relations").expect_err("reported once");
    assert_eq!(named(&problems), [("relations.deal.company_module.this", "this")]);
}

#[test]
fn base_types_are_the_platforms_own() {
    for name in BASE_TYPES {
        let problems =
            parse_relations(&json!({name: {"company_module": {"this": true}}}), "r").expect_err(name);
        assert_eq!(named(&problems), [(format!("r.{name}").as_str(), "base_type")]);
    }
}

#[test]
fn names_can_stand_in_a_tuple() {
    let anchor = json!({"company_module": {"this": true}});
    for bad in ["a:b", "a#b", "a@b", "a b", "1a", "", "ä", &"a".repeat(MAX_NAME + 1)] {
        let problems = parse_relations(&json!({bad: anchor}), "r").expect_err(bad);
        assert_eq!(named(&problems), [(format!("r.{bad}").as_str(), "name")], "{bad}");
        let relation = json!({"deal": {"company_module": {"this": true}, bad: {"this": true}}});
        let problems = parse_relations(&relation, "r").expect_err(bad);
        assert_eq!(named(&problems), [(format!("r.deal.{bad}").as_str(), "name")], "{bad}");
    }
    parse_relations(&json!({"a".repeat(MAX_NAME): anchor, "_comment": 1}), "r").expect("the longest name");
}

#[test]
fn roles_are_flags() {
    accepts("/roles", json!([]));
    refuses("/roles/0/roleKey", json!("a b"), "roles[0].roleKey", "pattern");
    refuses("/roles/0/label", json!(""), "roles[0].label", "label");
    refuses("/roles/0/scopeType", json!("team"), "roles[0].scopeType", "enum");
    refuses("/roles/0/grantsShellAccess", json!(1), "roles[0].grantsShellAccess", "type");
    refuses("/roles/0/seedCompanyCreatorRole", json!(1), "roles[0].seedCompanyCreatorRole", "type");
    refuses("/roles/0/sortOrder", json!("1"), "roles[0].sortOrder", "type");
    let role = sample()["roles"][0].clone();
    refuses("/roles", json!([role, role]), "roles[1].roleKey", "unique");
}

#[test]
fn objects_name_declared_types_and_their_relations() {
    for kind in ["module", "directory", "object", "document"] {
        accepts("/objects/0/scopeKind", json!(kind));
    }
    refuses("/objects/0/objectType", json!("lead"), "objects[0].objectType", "declared");
    refuses("/objects/0/label", json!(1), "objects[0].label", "type");
    refuses("/objects/0/scopeKind", json!("thing"), "objects[0].scopeKind", "enum");
    refuses("/objects/0/parentKind", json!(1), "objects[0].parentKind", "type");
    refuses("/objects/0/managerRelation", json!("boss"), "objects[0].managerRelation", "relation");
    refuses(
        "/objects/0/grantableRelations",
        json!(["owner", "boss"]),
        "objects[0].grantableRelations[1]",
        "relation",
    );
    refuses("/objects/0/showInPermissionUi", json!("no"), "objects[0].showInPermissionUi", "type");
    refuses("/objects/0/sortOrder", json!(1.5), "objects[0].sortOrder", "type");
    let object = sample()["objects"][0].clone();
    refuses("/objects", json!([object, object]), "objects[1].objectType", "unique");
}

#[test]
fn feature_keys_start_with_the_module_and_are_unique() {
    for bad in ["deals.read", "crmdeals.read", "docs.deals.read"] {
        refuses("/features/0/featureKey", json!(bad), "features[0].featureKey", "prefix");
    }
    for bad in ["crm.deals", "crm.deals.read.all", "crm..read", "crm.deals.", "crm.de als.read"] {
        refuses("/features/0/featureKey", json!(bad), "features[0].featureKey", "pattern");
    }
    refuses("/features/0/featureKey", json!("crm.access"), "features[0].featureKey", "reserved");
    accepts("/features/0/featureKey", json!("crm.access.manage"));
    let feature = sample()["features"][0].clone();
    refuses("/features", json!([feature, feature]), "features[1].featureKey", "unique");
}

#[test]
fn features_have_a_rule_on_a_type_that_exists() {
    for kind in ["relation", "platform_role", "module_eligibility"] {
        accepts("/features/0/accessRuleKind", json!(kind));
    }
    for payload in [json!({}), json!({"_": 1}), json!({"objectType": "company_module", "relation": "member"})]
    {
        accepts("/features/0/accessRulePayload", payload);
    }
    let payload = |object: &str, relation: &str| json!({"objectType": object, "relation": relation});
    let at = "/features/0/accessRulePayload";
    refuses(at, payload("lead", "viewer"), "features[0].accessRulePayload.objectType", "declared");
    refuses(at, payload("deal", "boss"), "features[0].accessRulePayload.relation", "relation");
    refuses(at, json!({"objectType": "deal"}), "features[0].accessRulePayload.relation", "required");
    refuses(at, json!([]), "features[0].accessRulePayload", "type");
    refuses("/features/0/accessRuleKind", json!("rule"), "features[0].accessRuleKind", "enum");
    refuses("/features/0/scopeType", json!("all"), "features[0].scopeType", "enum");
    refuses("/features/0/requiresCompany", json!(0), "features[0].requiresCompany", "type");
    refuses("/features/0/isSidebarEntry", json!(0), "features[0].isSidebarEntry", "type");
    refuses("/features/0/sortOrder", json!("0"), "features[0].sortOrder", "type");
    refuses("/features/0/label", json!("\u{7}"), "features[0].label", "label");
}

#[test]
fn the_other_sections_are_lists_and_reserved() {
    accepts("/rowScopes", json!([]));
    refuses("/rowScopes/0/entityType", json!("lead"), "rowScopes[0].entityType", "declared");
    accepts("/fieldCatalog", json!([{"any": 1}]));
    refuses("/fieldCatalog", json!({}), "fieldCatalog", "type");
    accepts("/fieldSets", json!([1]));
    refuses("/fieldSets", json!("x"), "fieldSets", "type");
    let seeds = "bootstrapPolicy.seedCompanyCreatorObjectRelations";
    refuses("/bootstrapPolicy/seedCompanyCreatorObjectRelations", json!(["owner"]), seeds, "reserved");
    refuses("/bootstrapPolicy/seedCompanyCreatorObjectRelations", json!({}), seeds, "type");
    refuses("/moduleKey", json!("erp"), "moduleKey", "fixed");
}

#[test]
fn comments_pass_at_every_level_and_unknown_keys_do_not() {
    for at in [
        "/_n",
        "/roles/0/_n",
        "/objects/0/_n",
        "/relations/_n",
        "/relations/deal/_n",
        "/features/0/_n",
        "/rowScopes/0/_n",
        "/bootstrapPolicy/_n",
    ] {
        accepts(at, json!("a note"));
    }
    let unknown = [
        ("/note", "note"),
        ("/roles/0/note", "roles[0].note"),
        ("/objects/0/note", "objects[0].note"),
        ("/features/0/note", "features[0].note"),
        ("/features/0/accessRulePayload/note", "features[0].accessRulePayload.note"),
        ("/rowScopes/0/note", "rowScopes[0].note"),
        ("/bootstrapPolicy/note", "bootstrapPolicy.note"),
    ];
    for (pointer, path) in unknown {
        refuses(pointer, json!(1), path, "unknown_key");
    }
}

#[test]
fn every_key_is_required() {
    let entries = [("roles", 0), ("objects", 0), ("features", 0), ("rowScopes", 0)];
    for (section, index) in entries {
        let members: Vec<String> =
            sample()[section][index].as_object().expect("an entry").keys().cloned().collect();
        for member in members {
            let file = without(sample(), &format!("/{section}/{index}/{member}"));
            let problems = parse(&file.to_string(), "crm").expect_err(&member);
            assert_eq!(named(&problems), [(format!("{section}[{index}].{member}").as_str(), "required")]);
        }
    }
    for section in [
        "moduleKey",
        "roles",
        "objects",
        "features",
        "fieldCatalog",
        "fieldSets",
        "rowScopes",
        "bootstrapPolicy",
    ] {
        let problems =
            parse(&without(sample(), &format!("/{section}")).to_string(), "crm").expect_err(section);
        assert_eq!(named(&problems), [(section, "required")]);
    }
    let problems = parse(&without(sample(), "/relations").to_string(), "crm").expect_err("relations");
    assert_eq!(named(&problems)[0], ("relations", "required"));
}

#[test]
fn the_base_model_is_monotonic_and_reaches_only_what_exists() {
    let base = base_model();
    assert_eq!(base.len(), BASE_TYPES.len());
    assert_eq!(missing_targets(&base, "base", &[&base]), []);
    let tiers: Vec<&str> = base["company_module"].keys().map(String::as_str).collect();
    assert_eq!(tiers, ["admin", "approver", "company", "editor", "member", "submitter", "system", "viewer"]);
}

const NAMES: &[&str] = &[
    "this",
    "computedUserset",
    "tupleToUserset",
    "tupleset",
    "union",
    "company_module",
    "deal",
    "relations",
    "features",
    "objects",
    "roles",
    "rowScopes",
    "featureKey",
    "crm.deals.read",
    "accessRulePayload",
    "objectType",
];

proptest! {
    #[test]
    fn any_json_gives_a_fragment_or_problems(value in any_json(NAMES)) {
        if let Err(problems) = parse(&value.to_string(), "crm") {
            prop_assert!(!problems.is_empty());
        }
        if let Err(problems) = parse_relations(&value, "authzFragment") {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn any_value_anywhere_in_a_good_file_does_too(value in any_json(NAMES), at in 0..KEYS.len()) {
        let file = with(sample(), &format!("/{}", KEYS[at]), value);
        if let Err(problems) = parse(&file.to_string(), "crm") {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn what_is_accepted_refers_only_to_what_is_declared(value in any_json(NAMES)) {
        let relations = json!({"deal": {"company_module": {"this": true}, "seen": value}});
        if let Ok(relations) = parse_relations(&relations, "r") {
            prop_assert!(missing_targets(&relations, "r", &[&relations, &base_model()]).iter().all(|found| found.rule == "target"));
        }
    }
}
