//! `GRANT` and `REVOKE`: on the module's own objects, to the module's own role, never with the right to pass it on.

use sqlparser::ast::{
    Action, Grant, GrantObjects, Grantee, GranteeName, GranteesType, ObjectName, Privileges, Revoke,
};

use super::forms::{plain, refusals};
use super::names::{Fence, Inside, append_only, parts};
use super::{Refusal, Rule};

/// `GRANT`.
pub(super) fn grant(fence: &Fence, grant: &Grant) -> Vec<Refusal> {
    let Grant { privileges, objects, grantees, with_grant_option, as_grantor, granted_by, current_grants } =
        grant;
    let foreign = as_grantor.is_some() || granted_by.is_some() || current_grants.is_some();
    let mut found = common(fence, privileges, objects.as_ref(), grantees);
    found.extend(plain(!foreign, "GRANTED BY").err());
    if *with_grant_option {
        found.push((Rule::GrantOption, "rights may not be passed on: no WITH GRANT OPTION".to_owned()));
    }
    found
}

/// `REVOKE`.
pub(super) fn revoke(fence: &Fence, revoke: &Revoke) -> Vec<Refusal> {
    let Revoke { grant_option_for, privileges, objects, grantees, granted_by, cascade: _ } = revoke;
    let mut found = common(fence, privileges, objects.as_ref(), grantees);
    found.extend(plain(!grant_option_for && granted_by.is_none(), "GRANT OPTION FOR or GRANTED BY").err());
    found
}

fn common(
    fence: &Fence,
    privileges: &Privileges,
    objects: Option<&GrantObjects>,
    grantees: &[Grantee],
) -> Vec<Refusal> {
    let mut found: Vec<Refusal> = grantees.iter().filter_map(|grantee| role(fence, grantee).err()).collect();
    if let Some(objects) = objects {
        found.extend(on(fence, privileges, objects));
    } else {
        found.push((Rule::GrantWithoutOn, "a grant needs an ON clause: roles are not granted".to_owned()));
    }
    found
}

fn role(fence: &Fence, grantee: &Grantee) -> Result<(), Refusal> {
    let right = fence.role();
    let kind = matches!(grantee.grantee_type, GranteesType::None | GranteesType::Role);
    let named = match &grantee.name {
        Some(GranteeName::ObjectName(name)) => parts(name).is_some_and(|parts| parts == [right.clone()]),
        Some(GranteeName::UserHost { .. }) | None => false,
    };
    if kind && named { Ok(()) } else { Err((Rule::GrantRole, format!("{grantee}: only {right}"))) }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "anything not listed here is refused")]
fn on(fence: &Fence, privileges: &Privileges, objects: &GrantObjects) -> Vec<Refusal> {
    match objects {
        GrantObjects::Tables(names) | GrantObjects::Views(names) => {
            let audit = names.iter().any(|name| fence.place(name) == Ok(Inside::Audit));
            let own = names.iter().any(|name| fence.place(name) == Ok(Inside::Schema));
            let mut found = refusals(names.iter().map(|name| on_table(fence, privileges, audit, name)));
            found.extend(own.then(|| on_own(privileges)).and_then(Result::err));
            found
        }
        GrantObjects::Sequences(names) => {
            let mut found = refusals(names.iter().map(|name| fence.own(name)));
            found.extend(on_own(privileges).err());
            found
        }
        GrantObjects::AllTablesInSchema { schemas } | GrantObjects::AllSequencesInSchema { schemas } => {
            let mut found = refusals(schemas.iter().map(|schema| own_schema(fence, schema)));
            found.extend(on_own(privileges).err());
            found
        }
        GrantObjects::Schemas(schemas) => {
            let mut found = refusals(schemas.iter().map(|schema| own_schema(fence, schema)));
            found.extend(usage(privileges).err());
            found
        }
        other => vec![(Rule::OutsideFence, format!("ON {other}: tables, views and sequences of the module"))],
    }
}

/// Checks where the table is; the audit table allows only reading and inserting. The privileges on the module's own
/// tables are the same for all of them and are checked once.
fn on_table(fence: &Fence, privileges: &Privileges, audit: bool, name: &ObjectName) -> Result<(), Refusal> {
    let adds = audit && only(privileges, |action| is_read(action) || is_insert(action));
    match fence.place(name)? {
        Inside::Audit if !adds => Err(append_only(name)),
        Inside::Audit | Inside::Schema => Ok(()),
    }
}

/// Any privilege except those that let the role bypass its rows.
fn on_own(privileges: &Privileges) -> Result<(), Refusal> {
    let changes = |action: &Action| {
        is_read(action)
            || is_insert(action)
            || matches!(action, Action::Update { .. } | Action::Delete | Action::Usage)
    };
    if only(privileges, changes) {
        Ok(())
    } else {
        Err(refused(privileges, "SELECT, INSERT, UPDATE, DELETE, USAGE"))
    }
}

fn usage(privileges: &Privileges) -> Result<(), Refusal> {
    if only(privileges, |action| matches!(action, Action::Usage)) {
        return Ok(());
    }
    Err(refused(privileges, "USAGE"))
}

fn refused(privileges: &Privileges, right: &str) -> Refusal {
    (Rule::Privilege, format!("{privileges}: only {right}, each by its name"))
}

fn only(privileges: &Privileges, allowed: impl Fn(&Action) -> bool) -> bool {
    match privileges {
        Privileges::All { .. } => false,
        Privileges::Actions(actions) => actions.iter().all(allowed),
    }
}

fn is_read(action: &Action) -> bool {
    matches!(action, Action::Select { .. })
}

fn is_insert(action: &Action) -> bool {
    matches!(action, Action::Insert { .. })
}

fn own_schema(fence: &Fence, schema: &ObjectName) -> Result<(), Refusal> {
    if parts(schema).is_some_and(|parts| parts == [fence.key.clone()]) {
        return Ok(());
    }
    Err((Rule::OutsideFence, format!("{schema} is not the module's schema")))
}
