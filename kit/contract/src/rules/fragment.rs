//! Rules of `authz.fragment.json` alone, and of its relations, which an app's manifest also has.

use super::Rule;

const fn rule(id: &'static str, path: &'static str, word: &'static str, says: &'static str) -> Rule {
    Rule::new(id, path, word, says)
}

/// Everything except the relations.
pub const FRAGMENT: &[Rule] = &[
    rule("fragment.module_key", "moduleKey", "fixed", "moduleKey is the manifest's"),
    rule("fragment.role_key", "roles[].roleKey", "pattern", "a role key has letters, digits, _ and -"),
    rule("fragment.role_once", "roles[].roleKey", "unique", "each role stands once"),
    rule("fragment.role_label", "roles[].label", "label", "a role has a label"),
    rule("fragment.role_scope", "roles[].scopeType", "enum", "a role's scopeType is global or company"),
    rule(
        "fragment.role_shell_access",
        "roles[].grantsShellAccess",
        "type",
        "grantsShellAccess is true or false",
    ),
    rule(
        "fragment.role_seed",
        "roles[].seedCompanyCreatorRole",
        "type",
        "seedCompanyCreatorRole is true or false",
    ),
    rule("fragment.role_sort_order", "roles[].sortOrder", "type", "a role's sortOrder is an integer"),
    rule(
        "fragment.object_declared",
        "objects[].objectType",
        "declared",
        "an object's type is declared in relations",
    ),
    rule("fragment.object_once", "objects[].objectType", "unique", "each type stands once"),
    rule("fragment.object_label", "objects[].label", "label", "an object has a label"),
    rule(
        "fragment.object_scope_kind",
        "objects[].scopeKind",
        "enum",
        "scopeKind is module, directory, object or document",
    ),
    rule("fragment.object_parent_kind", "objects[].parentKind", "type", "parentKind is a text"),
    rule(
        "fragment.object_manager",
        "objects[].managerRelation",
        "relation",
        "managerRelation is a relation of the type",
    ),
    rule(
        "fragment.object_grantable",
        "objects[].grantableRelations[]",
        "relation",
        "grantableRelations are relations of the type",
    ),
    rule(
        "fragment.object_shown",
        "objects[].showInPermissionUi",
        "type",
        "showInPermissionUi is true or false",
    ),
    rule("fragment.object_sort_order", "objects[].sortOrder", "type", "an object's sortOrder is an integer"),
    rule(
        "fragment.feature_prefix",
        "features[].featureKey",
        "prefix",
        "a feature key starts with <moduleKey>.",
    ),
    rule(
        "fragment.feature_pattern",
        "features[].featureKey",
        "pattern",
        "a feature key is <moduleKey>.<scope>.<action>",
    ),
    rule(
        "fragment.feature_reserved",
        "features[].featureKey",
        "reserved",
        "<moduleKey>.access is not declared",
    ),
    rule("fragment.feature_once", "features[].featureKey", "unique", "each feature stands once"),
    rule("fragment.feature_label", "features[].label", "label", "a feature has a label"),
    rule(
        "fragment.feature_scope",
        "features[].scopeType",
        "enum",
        "a feature's scopeType is global or company",
    ),
    rule(
        "fragment.feature_company",
        "features[].requiresCompany",
        "type",
        "requiresCompany is true or false",
    ),
    rule(
        "fragment.feature_rule_kind",
        "features[].accessRuleKind",
        "enum",
        "accessRuleKind is relation, platform_role or module_eligibility",
    ),
    rule(
        "fragment.feature_rule_type",
        "features[].accessRulePayload.objectType",
        "declared",
        "the payload's type is declared here or a base type",
    ),
    rule(
        "fragment.feature_rule_relation",
        "features[].accessRulePayload.relation",
        "relation",
        "the payload's relation is one of its type",
    ),
    rule(
        "fragment.feature_sort_order",
        "features[].sortOrder",
        "type",
        "a feature's sortOrder is an integer",
    ),
    rule("fragment.feature_sidebar", "features[].isSidebarEntry", "type", "isSidebarEntry is true or false"),
    rule(
        "fragment.row_scope_declared",
        "rowScopes[].entityType",
        "declared",
        "a row scope's type is declared in relations",
    ),
    rule("fragment.field_catalog", "fieldCatalog", "type", "fieldCatalog is a list"),
    rule("fragment.field_sets", "fieldSets", "type", "fieldSets is a list"),
    rule(
        "fragment.bootstrap_policy",
        "bootstrapPolicy.seedCompanyCreatorObjectRelations",
        "reserved",
        "nothing is seeded",
    ),
    rule("fragment.required", "**", "required", "every key is there"),
    rule(
        "fragment.unknown_key",
        "**",
        "unknown_key",
        "there is no other key, save comments that begin with _",
    ),
    rule("fragment.type", "**", "type", "every value has its type"),
    rule("fragment.limit", "**", "limit", "a list has at most 256 entries (64 that name types or relations)"),
    rule("fragment.json", "", "json", "the file is JSON"),
    rule("fragment.size", "", "size", "the file has at most 1 MiB"),
];

/// The relations; paths begin below the section (`relations`, `authzFragment`).
pub const RELATIONS: &[Rule] = &[
    rule("relations.base_type", "*", "base_type", "a type does not redeclare a base type"),
    rule("relations.type_name", "*", "name", "a type's name can stand in a tuple, at most 64 characters"),
    rule(
        "relations.relation_name",
        "*.**",
        "name",
        "a relation's name can stand in a tuple, at most 64 characters",
    ),
    rule("relations.anchor", "*.company_module", "anchor", "every type has company_module as {this: true}"),
    rule("relations.this", "**.this", "this", "this is true"),
    rule(
        "relations.computed_userset",
        "**.computedUserset",
        "relation",
        "computedUserset names a relation of the same type",
    ),
    rule(
        "relations.tupleset",
        "**.tupleToUserset.tupleset",
        "relation",
        "tupleset names a relation of the same type",
    ),
    rule(
        "relations.target",
        "**.tupleToUserset.computedUserset",
        "target",
        "the followed relation is on a type of the effective model",
    ),
    rule("relations.union", "**.union", "union", "a union has a child"),
    rule("relations.union_limit", "**.union", "limit", "a union has at most 256 children"),
    rule(
        "relations.operator",
        "**",
        "operator",
        "an expression is one of this, computedUserset, tupleToUserset, union",
    ),
    rule("relations.nesting", "**", "nesting", "an expression nests at most 16 deep"),
    rule("relations.types_limit", "", "limit", "there are at most 64 types"),
    rule("relations.relations_limit", "*", "limit", "a type has at most 64 relations"),
    rule("relations.required", "**.tupleToUserset.*", "required", "tupleToUserset names both relations"),
    rule("relations.unknown_key", "**.tupleToUserset.*", "unknown_key", "tupleToUserset has no other key"),
    rule("relations.type", "**", "type", "every value has its type"),
];
