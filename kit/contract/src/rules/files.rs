//! Rules of the other files, and rules between modules.

use super::Rule;

const fn rule(id: &'static str, path: &'static str, word: &'static str, says: &'static str) -> Rule {
    Rule::new(id, path, word, says)
}

/// `LICENSE`.
pub const LICENSE: &[Rule] =
    &[rule("license.text", "", "license_text", "the text is the canonical one of the manifest's license")];

/// `openapi.json`.
pub const OPENAPI: &[Rule] = &[
    rule("openapi.version", "openapi", "openapi_version", "the document is OpenAPI 3.1"),
    rule(
        "openapi.base_path",
        "servers[].url",
        "base_path",
        "servers[0].url is the manifest's service.basePath",
    ),
    rule("openapi.other_server", "servers[].url", "other_server", "the only other server is / for probes"),
    rule(
        "openapi.other_server_below",
        "**.servers",
        "other_server",
        "a path or operation has no server but / for probes",
    ),
    rule("openapi.paths", "paths", "required", "there are paths"),
    rule("openapi.relative_path", "paths.**", "relative_path", "a path starts with /, never with /api/"),
    rule("openapi.path_reference", "paths.**", "path_reference", "a path is written out, no $ref"),
    rule("openapi.operation_id", "paths.**.operationId", "required", "every operation has an operationId"),
    rule("openapi.operation_id_once", "paths.**.operationId", "unique", "every operationId is unique"),
    rule(
        "openapi.required_modules",
        "paths.**.x-required-modules",
        "required_modules",
        "every operation but the probes has a non-empty x-required-modules",
    ),
    rule(
        "openapi.known_modules",
        "paths.**.x-required-modules[]",
        "required_modules",
        "x-required-modules are existing module keys",
    ),
    rule("openapi.limit", "**", "limit", "a list of servers or modules has at most 64 items"),
    rule("openapi.type", "**", "type", "document, paths and operations are objects"),
    rule("openapi.json", "", "json", "the file is JSON"),
    rule("openapi.size", "", "size", "the file has at most 1 MiB"),
];

/// `frontend.manifest.json`.
pub const FRONTEND: &[Rule] = &[
    rule("frontend.route_base", "routeBase", "fixed", "routeBase is /app/<moduleKey>"),
    rule("frontend.sdk_range", "sdkVersionRange", "version_range", "sdkVersionRange is a range of versions"),
    rule("frontend.route_id", "routes[].id", "label", "a route has an id"),
    rule("frontend.route_id_once", "routes[].id", "unique", "route ids are unique"),
    rule("frontend.route_path", "routes[].path", "path", "a path starts with /, its :params are identifiers"),
    rule("frontend.route_path_once", "routes[].path", "unique", "route paths are unique"),
    rule(
        "frontend.route_feature",
        "routes[].featureKey",
        "feature",
        "featureKey is declared in the fragment or <moduleKey>.access",
    ),
    rule("frontend.required", "**", "required", "every key is there"),
    rule(
        "frontend.unknown_key",
        "**",
        "unknown_key",
        "there is no other key, save comments that begin with _",
    ),
    rule("frontend.type", "**", "type", "every value has its type"),
    rule("frontend.limit", "routes", "limit", "there are at most 256 routes"),
    rule("frontend.json", "", "json", "the file is JSON"),
    rule("frontend.size", "", "size", "the file has at most 1 MiB"),
];

/// Rules between the modules of one platform. A schema and a feature prefix equal the key.
pub const BETWEEN: &[Rule] = &[
    rule("between.folder", "moduleKey", "fixed", "moduleKey is the name that the module is shipped under"),
    rule("between.module_key", "moduleKey", "unique", "a module key, and so a schema, is one module's"),
    rule(
        "between.port",
        "service.port",
        "unique",
        "a port is one module's, and no service's of the platform",
    ),
    rule("between.object_type", "relations.*", "unique", "an object type is one module's"),
    rule("between.feature_key", "features", "unique", "a feature key is one module's"),
    rule("between.dependency", "dependencies[].moduleKey", "dependency", "a dependency exists"),
    rule(
        "between.dependency_version",
        "dependencies[].versionRange",
        "dependency_version",
        "a dependency's version is in the range",
    ),
    rule("between.cycle", "dependencies", "cycle", "dependencies form no cycle, which is named"),
    rule(
        "between.target",
        "relations.**.tupleToUserset.computedUserset",
        "target",
        "the followed relation is on a type of the effective model",
    ),
];

/// An app's manifest, besides its relations; the last rules compare it with what is registered already. Each names the
/// field in the 422 (400 for required members and types) that `POST /api/platform/admin/apps` returns.
pub const APP: &[Rule] = &[
    rule("app.key", "key", "pattern", "key is ^[a-z][a-z0-9_]{1,31}$"),
    rule("app.key_reserved", "key", "reserved", "key is no name of the platform's own and no module's"),
    rule("app.display_name", "displayName", "label", "displayName is a text of 1 to 200 characters"),
    rule("app.version", "version", "semver", "version is a semantic version"),
    rule("app.version_higher", "version", "lower", "a version is not lower than the registered one"),
    rule("app.version_content", "version", "content", "other content has a higher version"),
    rule("app.client", "serviceClientId", "pattern", "serviceClientId is ^[a-z][a-z0-9_-]{1,63}$"),
    rule(
        "app.client_reserved",
        "serviceClientId",
        "reserved",
        "serviceClientId is no client of the platform's own",
    ),
    rule("app.client_once", "serviceClientId", "unique", "serviceClientId is one app's"),
    rule("app.feature_prefix", "features[]", "prefix", "a feature starts with <key>."),
    rule("app.feature_reserved", "features[]", "reserved", "<key>.access is not declared"),
    rule("app.feature_pattern", "features[]", "pattern", "a feature has letters, digits, _, - and dots"),
    rule("app.feature_once", "features[]", "unique", "each feature stands once"),
    rule("app.features_limit", "features", "limit", "there are at most 256 features"),
    rule("app.object_type", "authzFragment.*", "unique", "an object type is one owner's"),
    rule("app.in_use", "authzFragment.**", "in_use", "what has tuples is not left out"),
    rule("app.required", "**", "required", "every key but features is there"),
    rule("app.unknown_key", "**", "unknown_key", "there is no other key, save comments that begin with _"),
    rule("app.type", "**", "type", "every value has its type"),
];
