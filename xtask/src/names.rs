//! One name means one thing in the workspace: public type names that stand in more than one crate need a reason each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use syn::visit::Visit;
use syn::{Ident, ItemEnum, ItemMacro, ItemStruct, ItemTrait, ItemType, Visibility};

/// Names that several crates use on purpose, each with its reason.
const SHARED: &[(&str, &str)] = &[
    (
        "AccessRequest",
        "contract: one question for a decision; docs: a reader's request for access to a document",
    ),
    ("Account", "postgres: the operating-system account of the server; identity: an account of the provider"),
    ("Answer", "edge: bytes read from an upstream; service: a complete response; authz: an AuthZEN answer"),
    ("App", "state of a service's routes, by convention; services never import each other"),
    ("Ask", "service: what a worker is ready to take; authz: one relation that may be held"),
    ("Attempt", "service: one call of an idempotent operation; notification: one call of a webhook"),
    ("Call", "service: a request to another part; testkit: a request of a test"),
    ("Case", "testkit: a body at a limit; authz: one case of `platform authz cases`"),
    ("Change", "the body of a partial change of the module's own rules"),
    ("Comment", "a comment on the module's own resource"),
    ("Config", "configuration of one process, by convention; services never import each other"),
    ("Content", "what users write into the module's own resource"),
    ("Feature", "contract: an entry of `features[]`; service: the same feature as an operation asks for it"),
    (
        "Held",
        "authz: whether a relation is held; helpdesk: a caller's tier; timesheet: the entries of a submission",
    ),
    ("Kind", "contract: the form of a variable; notification: the kind of a channel"),
    ("Names", "the names that a module stores of members"),
    ("Operation", "service: a row of a module's table; testkit: the same row with a sample call"),
    ("Outcome", "notification: how an attempt ended; authz: how many cases passed"),
    ("PlatformRole", "service: looks up the role; authz: the body that grants it"),
    ("Posted", "service: how notification answered an event; notification: the event itself"),
    ("Reader", "contract: reads variables; service: the caller who reads names"),
    ("Reply", "mail: the mail server's last reply to a mail; testkit: the response to a request"),
    ("Role", "contract: an entry of `roles[]`; docs: what a caller may do with a document"),
    (
        "Scope",
        "contract: whether a decision concerns the platform or one company; telemetry: one request; identity: the accounts of one look",
    ),
    ("Secret", "service: sealed bytes; idp: a configured text"),
    ("Settings", "contract: the variables of a process; notification: its own values of them"),
    ("Shown", "a row as one caller sees it; authz: how much of a tree"),
    ("State", "the state of the module's own resource, a word of its API"),
    (
        "Status",
        "the status of the module's own resource, a word of its API; postgres: the server's status file",
    ),
    ("Step", "service: the work of a loop; testkit: a step of a scripted SMTP session"),
    ("Swept", "service: the result of a sweep; docs: the row that a sweep settles"),
    ("Target", "service: where an outbound request goes; docs: what is shared"),
    ("Tuple", "contract: the wire form; testkit: a scripted fact"),
    ("TupleRow", "service: a module's row that stands for tuples; authz: the columns of a tuple"),
    (
        "View",
        "service: a query value that needs another decision; modules: which rows a list shows, a word of their APIs",
    ),
    ("Window", "timesheet: the weeks that are open; authz: part of a list"),
];

/// Prints every shared name with its crates and its reason.
///
/// # Errors
/// A file that is no Rust.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let reasons: BTreeMap<&str, &str> = SHARED.iter().copied().collect();
    let mut problems = Vec::new();
    let mut shared = BTreeSet::new();
    for (name, crates) in public_types(root)? {
        if crates.len() < 2 {
            continue;
        }
        let crates = crates.into_iter().collect::<Vec<_>>().join(", ");
        match reasons.get(name.as_str()) {
            Some(reason) => crate::say(&format!("{name} ({crates}): {reason}")),
            None => problems.push(format!("{name} stands in {crates}, and names.rs gives no reason")),
        }
        shared.insert(name);
    }
    let stale = reasons.keys().filter(|name| !shared.contains(**name));
    problems
        .extend(stale.map(|name| format!("names.rs gives a reason for {name}, which one crate has at most")));
    Ok(problems)
}

/// The crates that have a public type of this name, by name.
fn public_types(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in crate::rust_files(root)? {
        let Some((package, _)) = path.split_once("/src/") else { continue };
        if package.starts_with("examples/") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path))?;
        let parsed = syn::parse_file(&text).with_context(|| path.clone())?;
        let mut types = Types::default();
        types.visit_file(&parsed);
        for name in types.names {
            found.entry(name).or_default().insert(package.to_owned());
        }
    }
    Ok(found)
}

#[derive(Default)]
struct Types {
    names: BTreeSet<String>,
}

impl Types {
    fn add(&mut self, visibility: &Visibility, name: &Ident) {
        if matches!(visibility, Visibility::Public(_)) {
            self.names.insert(name.to_string());
        }
    }
}

impl Visit<'_> for Types {
    fn visit_item_struct(&mut self, item: &ItemStruct) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &ItemTrait) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_type(&mut self, item: &ItemType) {
        self.add(&item.vis, &item.ident);
    }

    /// Types that a macro of ours declares, such as `words!`, stand in its arguments as `pub enum NAME`.
    fn visit_item_macro(&mut self, item: &ItemMacro) {
        let words: Vec<String> = item.mac.tokens.clone().into_iter().map(|token| token.to_string()).collect();
        for declared in words.windows(3) {
            if let [public, kind, name] = declared
                && public == "pub"
                && ["enum", "struct", "trait", "type"].contains(&kind.as_str())
            {
                self.names.insert(name.clone());
            }
        }
    }
}
