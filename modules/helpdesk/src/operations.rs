//! Every operation of the module with the decision that it asks. Tiers are the relations admin, editor and member of the
//! company's module.

use service::{Feature, Operation as Op, Operations};

use crate::{App, KEY, tickets};

/// One's own tickets; only for members, because it needs to know whose they are.
const TICKETS_READ: Feature = Feature::of_module("helpdesk.tickets.read", "member");
const TICKETS_READ_ALL: Feature = Feature::of_module("helpdesk.tickets.read_all", "editor").or_operator();
/// Whether the caller administers the module.
pub const TIER_ADMIN: Feature = Feature::of_module("helpdesk.tier.read", "admin").or_operator();
/// Whether the caller works on tickets.
pub const TIER_EDITOR: Feature = Feature::of_module("helpdesk.tier.read", "editor").or_operator();

/// The table.
pub fn operations() -> Operations<App> {
    let list = Op::get("/tickets", "listTickets", TICKETS_READ).with_view("view", &["all"], TICKETS_READ_ALL);
    Operations::of(KEY).bind(list, tickets::http::list)
}
