//! Rules of `module.manifest.json` alone.

use super::Rule;

const fn rule(id: &'static str, path: &'static str, word: &'static str, says: &'static str) -> Rule {
    Rule::new(id, path, word, says)
}

/// In the order of the specification's table; rules for all keys come last.
pub const MANIFEST: &[Rule] = &[
    rule("manifest.contract_version", "contractVersion", "contract_version", "contractVersion is 1"),
    rule("manifest.module_key", "moduleKey", "pattern", "moduleKey is ^[a-z][a-z0-9_]{1,31}$"),
    rule(
        "manifest.module_key_reserved",
        "moduleKey",
        "reserved",
        "moduleKey is not a name of the platform's own",
    ),
    rule("manifest.display_name", "displayName", "label", "displayName is a text of 1 to 200 characters"),
    rule("manifest.version", "version", "semver", "version is a semantic version"),
    rule("manifest.scope_type", "scopeType", "enum", "scopeType is global or company"),
    rule("manifest.mandatory", "mandatory", "type", "mandatory is true or false"),
    rule("manifest.base_path", "service.basePath", "fixed", "service.basePath is /api/<moduleKey>"),
    rule("manifest.port", "service.port", "range", "service.port is from 1 to 65535"),
    rule(
        "manifest.health_path",
        "service.healthPath",
        "absolute_path",
        "service.healthPath is an absolute path",
    ),
    rule("manifest.image", "service.image", "reserved", "service.image is null"),
    rule("manifest.dependency_key", "dependencies[].moduleKey", "pattern", "a dependency names a module key"),
    rule(
        "manifest.dependency_self",
        "dependencies[].moduleKey",
        "cycle",
        "a module does not depend on itself",
    ),
    rule("manifest.dependency_once", "dependencies[].moduleKey", "unique", "each dependency stands once"),
    rule(
        "manifest.dependency_range",
        "dependencies[].versionRange",
        "version_range",
        "versionRange is a range of versions",
    ),
    rule(
        "manifest.dependency_required",
        "dependencies[].required",
        "required_dependency",
        "required is true",
    ),
    rule(
        "manifest.org_unit_types",
        "org.requiredOrgUnitTypes[]",
        "pattern",
        "requiredOrgUnitTypes are type keys",
    ),
    rule("manifest.org_uses_members", "org.usesMembers", "type", "usesMembers is true or false"),
    rule("manifest.org_uses_positions", "org.usesPositions", "type", "usesPositions is true or false"),
    rule("manifest.schema", "data.postgresSchema", "fixed", "data.postgresSchema is the moduleKey"),
    rule("manifest.migrations_path", "data.migrationsPath", "fixed", "data.migrationsPath is migrations"),
    rule("manifest.license_class", "license.class", "enum", "license.class is foundation or open"),
    rule(
        "manifest.license_spdx",
        "license.spdx",
        "license",
        "foundation is Apache-2.0, open is Apache-2.0 or MIT",
    ),
    rule(
        "manifest.entitlement_required",
        "license.entitlementRequired",
        "type",
        "entitlementRequired is true or false",
    ),
    rule("manifest.events", "events", "reserved", "events is null"),
    rule("manifest.required", "**", "required", "every key is there"),
    rule(
        "manifest.unknown_key",
        "**",
        "unknown_key",
        "there is no other key, save comments that begin with _",
    ),
    rule("manifest.type", "**", "type", "every value has its type"),
    rule("manifest.limit", "**", "limit", "a list has at most 64 items"),
    rule("manifest.json", "", "json", "the file is JSON"),
    rule("manifest.size", "", "size", "the file has at most 1 MiB"),
];
