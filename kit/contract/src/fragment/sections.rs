//! The sections besides `relations`: roles, objects, features, row scopes and the bootstrap policy. They are data for
//! screens and summaries and grant nothing.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Relations, access_feature, base_model};
use crate::manifest::ScopeType;
use crate::manifest::strict::{Findings, MAX_ENTRIES, MAX_NAMED, Members, Node};

/// Longest feature key or role key, in characters.
const MAX_KEY: usize = 128;

/// One role of `roles[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// `<key>_admin` for shipped modules.
    pub role_key: String,
    /// Label for people.
    pub label: String,
    /// Global or per company.
    pub scope_type: ScopeType,
    /// A flag for the shell.
    pub grants_shell_access: bool,
    /// A flag for company creation.
    pub seed_company_creator_role: bool,
    /// Position in lists.
    pub sort_order: i64,
}

/// One object type of `objects[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectType {
    /// An object type declared in `relations`.
    pub object_type: String,
    /// Label for people.
    pub label: String,
    /// Kind of object.
    pub scope_kind: ScopeKind,
    /// `company_module` for shipped modules.
    pub parent_kind: String,
    /// The relation of users who manage an object.
    pub manager_relation: String,
    /// Relations that may be granted.
    pub grantable_relations: Vec<String>,
    /// Whether permission screens show it.
    pub show_in_permission_ui: bool,
    /// Position in lists.
    pub sort_order: i64,
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// The module itself.
    Module,
    /// A list of things.
    Directory,
    /// A thing.
    Object,
    /// A document.
    Document,
}

impl ScopeKind {
    const WORDS: [(&'static str, Self); 4] = [
        ("module", Self::Module),
        ("directory", Self::Directory),
        ("object", Self::Object),
        ("document", Self::Document),
    ];
}

/// One feature of `features[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// `<moduleKey>.<scope>.<action>`.
    pub key: String,
    /// Label for people.
    pub label: String,
    /// Global or per company.
    pub scope_type: ScopeType,
    /// Whether it needs a company.
    pub requires_company: bool,
    /// Kind of its rule.
    pub rule_kind: AccessRuleKind,
    /// Who may use it.
    pub rule: AccessRule,
    /// Position in lists.
    pub sort_order: i64,
    /// Whether the shell's sidebar shows it.
    pub is_sidebar_entry: bool,
}

/// Kinds of access rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRuleKind {
    /// A relation on an object.
    Relation,
    /// A platform role.
    PlatformRole,
    /// Whether the module is available to the subject.
    ModuleEligibility,
}

impl AccessRuleKind {
    const WORDS: [(&'static str, Self); 3] = [
        ("relation", Self::Relation),
        ("platform_role", Self::PlatformRole),
        ("module_eligibility", Self::ModuleEligibility),
    ];
}

/// Who may use a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// Every member: the payload is empty.
    Membership,
    /// The holders of a relation.
    Relation {
        /// A declared type or a base type.
        object_type: String,
        /// One of its relations.
        relation: String,
    },
}

/// One entry of `rowScopes[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowScope {
    /// A declared type.
    pub entity_type: String,
    /// Uninterpreted.
    pub rules: Value,
}

/// Parses every item; `None` when one of them could not be parsed.
fn each<'a, T>(
    items: &[Node<'a>],
    found: &mut Findings,
    mut read: impl FnMut(&Node<'a>, &mut Findings) -> Option<T>,
) -> Option<Vec<T>> {
    let read: Vec<Option<T>> = items.iter().map(|item| read(item, found)).collect();
    read.into_iter().collect()
}

pub(super) fn read_roles(file: &Members<'_>, found: &mut Findings) -> Option<Vec<Role>> {
    let mut seen = BTreeSet::new();
    each(&file.items("roles", MAX_ENTRIES, found)?, found, |item, found| read_role(item, &mut seen, found))
}

const ROLE_KEYS: [&str; 6] =
    ["roleKey", "label", "scopeType", "grantsShellAccess", "seedCompanyCreatorRole", "sortOrder"];

fn read_role<'a>(item: &Node<'a>, seen: &mut BTreeSet<&'a str>, found: &mut Findings) -> Option<Role> {
    let role = item.members(&ROLE_KEYS, found)?;
    let role_key = role.text("roleKey", found);
    if let Some(key) = role_key {
        check_segment(&role.path_of("roleKey"), key, found);
        check_first(&role.path_of("roleKey"), key, seen, found);
    }
    let label = role.label("label", found);
    let scope_type = role.word("scopeType", &ScopeType::WORDS, found);
    let grants_shell_access = role.flag("grantsShellAccess", found);
    let seed_company_creator_role = role.flag("seedCompanyCreatorRole", found);
    let sort_order = role.integer("sortOrder", found);
    Some(Role {
        role_key: role_key?.to_owned(),
        label: label?,
        scope_type: scope_type?,
        grants_shell_access: grants_shell_access?,
        seed_company_creator_role: seed_company_creator_role?,
        sort_order: sort_order?,
    })
}

pub(super) fn read_objects(
    file: &Members<'_>,
    declared: &Relations,
    found: &mut Findings,
) -> Option<Vec<ObjectType>> {
    let mut seen = BTreeSet::new();
    each(&file.items("objects", MAX_NAMED, found)?, found, |item, found| {
        read_object(item, declared, &mut seen, found)
    })
}

const OBJECT_KEYS: [&str; 8] = [
    "objectType",
    "label",
    "scopeKind",
    "parentKind",
    "managerRelation",
    "grantableRelations",
    "showInPermissionUi",
    "sortOrder",
];

fn read_object<'a>(
    item: &Node<'a>,
    declared: &Relations,
    seen: &mut BTreeSet<&'a str>,
    found: &mut Findings,
) -> Option<ObjectType> {
    let object = item.members(&OBJECT_KEYS, found)?;
    let object_type = object.text("objectType", found);
    if let Some(name) = object_type {
        check_declared(&object.path_of("objectType"), name, declared, found);
        check_first(&object.path_of("objectType"), name, seen, found);
    }
    let label = object.label("label", found);
    let scope_kind = object.word("scopeKind", &ScopeKind::WORDS, found);
    let parent_kind = object.text("parentKind", found);
    let manager_relation = object.need("managerRelation", found);
    let manager_relation =
        manager_relation.and_then(|node| own_relation(&node, object_type, declared, found));
    let grantable = object.items("grantableRelations", MAX_NAMED, found);
    let grantable_relations = grantable.and_then(|items| {
        each(&items, found, |node, found| own_relation(node, object_type, declared, found))
    });
    let show_in_permission_ui = object.flag("showInPermissionUi", found);
    let sort_order = object.integer("sortOrder", found);
    Some(ObjectType {
        object_type: object_type?.to_owned(),
        label: label?,
        scope_kind: scope_kind?,
        parent_kind: parent_kind?.to_owned(),
        manager_relation: manager_relation?,
        grantable_relations: grantable_relations?,
        show_in_permission_ui: show_in_permission_ui?,
        sort_order: sort_order?,
    })
}

/// A relation of the entry's own type; an unknown type was reported already.
fn own_relation(
    node: &Node<'_>,
    object_type: Option<&str>,
    declared: &Relations,
    found: &mut Findings,
) -> Option<String> {
    let relation = node.text(found)?;
    let of_type = object_type.and_then(|name| declared.get(name));
    if of_type.is_some_and(|of_type| !of_type.contains_key(relation)) {
        return found.refuse(&node.path, "relation", format!("\"{relation}\" does not exist on this type"));
    }
    Some(relation.to_owned())
}

pub(super) fn read_features(
    file: &Members<'_>,
    module_key: &str,
    declared: &Relations,
    found: &mut Findings,
) -> Option<Vec<Feature>> {
    let mut model = base_model();
    model.extend(declared.clone());
    let mut seen = BTreeSet::new();
    each(&file.items("features", MAX_ENTRIES, found)?, found, |item, found| {
        let feature = read_feature(item, &model, found)?;
        let path = format!("{}.featureKey", item.path);
        check_feature_key(&path, &feature.key, module_key, found);
        if !seen.insert(feature.key.clone()) {
            found.refuse::<()>(&path, "unique", format!("\"{}\" only once", feature.key));
        }
        Some(feature)
    })
}

const FEATURE_KEYS: [&str; 8] = [
    "featureKey",
    "label",
    "scopeType",
    "requiresCompany",
    "accessRuleKind",
    "accessRulePayload",
    "sortOrder",
    "isSidebarEntry",
];

fn read_feature(item: &Node<'_>, model: &Relations, found: &mut Findings) -> Option<Feature> {
    let feature = item.members(&FEATURE_KEYS, found)?;
    let key = feature.text("featureKey", found);
    let label = feature.label("label", found);
    let scope_type = feature.word("scopeType", &ScopeType::WORDS, found);
    let requires_company = feature.flag("requiresCompany", found);
    let rule_kind = feature.word("accessRuleKind", &AccessRuleKind::WORDS, found);
    let rule = feature.need("accessRulePayload", found).and_then(|node| read_rule(&node, model, found));
    let sort_order = feature.integer("sortOrder", found);
    let is_sidebar_entry = feature.flag("isSidebarEntry", found);
    Some(Feature {
        key: key?.to_owned(),
        label: label?,
        scope_type: scope_type?,
        requires_company: requires_company?,
        rule_kind: rule_kind?,
        rule: rule?,
        sort_order: sort_order?,
        is_sidebar_entry: is_sidebar_entry?,
    })
}

fn read_rule(node: &Node<'_>, model: &Relations, found: &mut Findings) -> Option<AccessRule> {
    if node.open(found)?.entries().next().is_none() {
        return Some(AccessRule::Membership);
    }
    let members = node.members(&["objectType", "relation"], found)?;
    let object_type = members.text("objectType", found);
    let relation = members.text("relation", found);
    let (object_type, relation) = (object_type?, relation?);
    match model.get(object_type) {
        None => {
            found.refuse(&members.path_of("objectType"), "declared", "a type of this fragment or a base type")
        }
        Some(of_type) if !of_type.contains_key(relation) => {
            found.refuse(&members.path_of("relation"), "relation", format!("a relation of {object_type}"))
        }
        Some(_) => {
            Some(AccessRule::Relation { object_type: object_type.to_owned(), relation: relation.to_owned() })
        }
    }
}

fn check_feature_key(path: &str, key: &str, module_key: &str, found: &mut Findings) {
    let own = key.strip_prefix(module_key).and_then(|rest| rest.strip_prefix('.'));
    let Some(own) = own else {
        found.refuse::<()>(path, "prefix", format!("starts with {module_key}."));
        return;
    };
    if key == access_feature(module_key) {
        found.refuse::<()>(path, "reserved", format!("{key} exists for every module"));
    } else if own.split('.').count() != 2 || !own.split('.').all(is_segment) || key.len() > MAX_KEY {
        found.refuse::<()>(path, "pattern", format!("{module_key}.<scope>.<action>"));
    }
}

fn check_segment(path: &str, text: &str, found: &mut Findings) {
    if !is_segment(text) || text.len() > MAX_KEY {
        found.refuse::<()>(path, "pattern", "letters, digits, _ and -");
    }
}

fn is_segment(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn check_first<'a>(path: &str, text: &'a str, seen: &mut BTreeSet<&'a str>, found: &mut Findings) {
    if !seen.insert(text) {
        found.refuse::<()>(path, "unique", format!("\"{text}\" only once"));
    }
}

fn check_declared(path: &str, name: &str, declared: &Relations, found: &mut Findings) {
    if !declared.contains_key(name) {
        found.refuse::<()>(path, "declared", format!("\"{name}\" is not declared in relations"));
    }
}

pub(super) fn read_row_scopes(
    file: &Members<'_>,
    declared: &Relations,
    found: &mut Findings,
) -> Option<Vec<RowScope>> {
    each(&file.items("rowScopes", MAX_ENTRIES, found)?, found, |item, found| {
        let scope = item.members(&["entityType", "rules"], found)?;
        let entity_type = scope.text("entityType", found);
        if let Some(name) = entity_type {
            check_declared(&scope.path_of("entityType"), name, declared, found);
        }
        let rules = scope.need("rules", found);
        Some(RowScope { entity_type: entity_type?.to_owned(), rules: rules?.value.clone() })
    })
}

/// The policy has one member, and it must be empty: company creation writes only the default grants.
pub(super) fn check_bootstrap_policy(file: &Members<'_>, found: &mut Findings) {
    let policy = file.need("bootstrapPolicy", found);
    let policy = policy.and_then(|node| node.members(&["seedCompanyCreatorObjectRelations"], found));
    let seeds = policy.as_ref().and_then(|policy| policy.need("seedCompanyCreatorObjectRelations", found));
    let seeds = seeds.and_then(|seeds| seeds.list(found));
    if seeds.is_some_and(|seeds| !seeds.is_empty()) {
        found.refuse::<()>("bootstrapPolicy.seedCompanyCreatorObjectRelations", "reserved", "an empty list");
    }
}
