//! Checks an app's manifest file against the shipped modules, for its author, before registration. The registration
//! also checks it against the running catalog: other apps, earlier versions and tuples in use.

use std::collections::BTreeMap;

use contract::FieldProblem;
use contract::fields;
use contract::manifest::set::ModuleContract;
use serde_json::Value;
use service::Bundle;

use super::rules::{self, Reserved};
use super::verdict::{self, Standing};
use crate::bundles;

/// Largest manifest, in bytes; the same limit as for a registration.
const MAX_BYTES: usize = 1 << 20;

/// Lists every rule that the manifest breaks.
#[must_use]
pub fn check_app(text: &str, bundles: &[Bundle]) -> Vec<FieldProblem> {
    judge(text, bundles).err().unwrap_or_default()
}

fn judge(text: &str, bundles: &[Bundle]) -> Result<(), Vec<FieldProblem>> {
    if text.len() > MAX_BYTES {
        return Err(vec![FieldProblem::new("", "size", format!("at most {MAX_BYTES} bytes"))]);
    }
    let sent: Value = serde_json::from_str(text)
        .map_err(|error| vec![FieldProblem::new("", "json", format!("not JSON: {error}"))])?;
    let modules =
        bundles::read(bundles).map_err(|problems| vec![FieldProblem::new("", "modules", problems)])?;
    let module_keys = bundles.iter().map(|bundle| bundle.key.to_owned()).collect();
    let reserved = Reserved { module_keys, idp_admin_client: None };
    let checked = rules::check(fields::parse(&sent)?, &sent, &reserved)?;
    let contracts: Vec<ModuleContract> = modules.into_iter().map(|module| module.contract).collect();
    verdict::judge(&checked, &beside(&contracts)).map(drop)
}

fn beside(modules: &[ModuleContract]) -> Standing {
    let mut type_owners = BTreeMap::new();
    for module in modules {
        let types = module.fragment.relations.keys();
        type_owners.extend(types.map(|name| (name.clone(), module.manifest.key.clone())));
    }
    let others = modules.iter().map(|module| module.fragment.relations.clone()).collect();
    Standing { type_owners, others, ..Standing::default() }
}
