//! Every operation of the module with the decision that it asks, in the order of the module contract, then those beyond it.
//! Tiers are the relations admin, editor and member of the company's module; an editor is an agent. A platform operator may
//! administer a company's helpdesk without being its member, but opens no ticket there.

use service::{Feature, Operation as Op, Operations, company_rules};

use crate::settings::rules::TicketRules;
use crate::{App, KEY, assignables, bindings, comments, tickets, tiers};

const TIER_READ: Feature = Feature::of_module("helpdesk.tier.read", "member").or_operator();
/// Whether the caller administers the module.
pub const TIER_ADMIN: Feature = Feature::of_module("helpdesk.tier.read", "admin").or_operator();
/// Whether the caller works on tickets.
pub const TIER_EDITOR: Feature = Feature::of_module("helpdesk.tier.read", "editor").or_operator();
/// One's own tickets; only for members, because it needs to know whose they are.
const TICKETS_READ_OWN: Feature = Feature::of_module("helpdesk.tickets.read", "member");
const TICKETS_READ_ALL: Feature = Feature::of_module("helpdesk.tickets.read_all", "editor").or_operator();
const TICKETS_CREATE: Feature = Feature::of_module("helpdesk.tickets.create", "member");
/// One ticket; whose, the row says.
const TICKETS_READ: Feature = Feature::of_module("helpdesk.tickets.read", "member").or_operator();
const TICKETS_ASSIGN: Feature = Feature::of_module("helpdesk.tickets.assign", "editor").or_operator();
/// Move a ticket; which way, its state and the caller's part in it say.
const TICKETS_TRANSITION: Feature = Feature::of_module("helpdesk.tickets.transition", "member").or_operator();
/// The second decision: work on tickets to which the caller is no party.
pub const TICKETS_WORK: Feature = Feature::of_module("helpdesk.tickets.work", "editor").or_operator();
const COMMENTS_READ: Feature = Feature::of_module("helpdesk.comments.read", "member").or_operator();
const COMMENTS_CREATE: Feature = Feature::of_module("helpdesk.comments.create", "member").or_operator();
const ASSIGNABLES_READ: Feature = Feature::of_module("helpdesk.assignables.read", "editor").or_operator();
const BINDINGS_READ: Feature = Feature::of_module("helpdesk.bindings.read", "admin").or_operator();
const BINDINGS_MANAGE: Feature = Feature::of_module("helpdesk.bindings.manage", "admin").or_operator();
const SETTINGS_READ: Feature = Feature::of_module("helpdesk.settings.read", "member").or_operator();
const SETTINGS_UPDATE: Feature = Feature::of_module("helpdesk.settings.update", "admin").or_operator();

/// The decisions that operations ask beside their own.
pub const SECOND: &[Feature] = &[TIER_ADMIN, TIER_EDITOR, TICKETS_WORK];

/// The table.
pub fn operations() -> Operations<App> {
    let list =
        Op::get("/tickets", "listTickets", TICKETS_READ_OWN).with_view("view", &["all"], TICKETS_READ_ALL);
    let table = Operations::of(KEY)
        .bind(Op::get("/tier", "getTier", TIER_READ), tiers::http::show)
        .bind(list, tickets::list::list)
        .bind(Op::post("/tickets", "createTicket", TICKETS_CREATE).idempotent(), tickets::http::create)
        .bind(Op::get("/tickets/{ticketId}", "getTicket", TICKETS_READ), tickets::http::show)
        .bind(
            Op::get("/tickets/{ticketId}/history", "listTicketHistory", TICKETS_READ),
            tickets::http::history,
        )
        .bind(
            Op::put("/tickets/{ticketId}/assignee", "assignTicket", TICKETS_ASSIGN),
            tickets::assign::assign,
        )
        .bind(
            Op::put("/tickets/{ticketId}/status", "changeTicketStatus", TICKETS_TRANSITION),
            tickets::move_status::change,
        )
        .bind(Op::get("/tickets/{ticketId}/comments", "listComments", COMMENTS_READ), comments::http::list)
        .bind(
            Op::post("/tickets/{ticketId}/comments", "addComment", COMMENTS_CREATE).idempotent(),
            comments::http::add,
        )
        .bind(
            Op::get("/assignable-positions", "listAssignablePositions", ASSIGNABLES_READ),
            assignables::http::positions,
        )
        .bind(
            Op::get("/assignable-groups", "listAssignableGroups", ASSIGNABLES_READ),
            assignables::http::groups,
        )
        .bind(Op::get("/bindings", "listBindings", BINDINGS_READ), bindings::http::list)
        .bind(Op::post("/bindings", "createBinding", BINDINGS_MANAGE), bindings::http::create)
        .bind(
            Op::delete("/bindings/positions/{positionId}", "deletePositionBinding", BINDINGS_MANAGE),
            bindings::http::delete_position,
        )
        .bind(
            Op::delete("/bindings/groups/{groupId}", "deleteGroupBinding", BINDINGS_MANAGE),
            bindings::http::delete_group,
        )
        .bind(
            Op::delete("/bindings/members/{memberId}", "deleteMemberBinding", BINDINGS_MANAGE),
            bindings::http::delete_member,
        );
    beyond(table)
}

/// What the module contract does not ask for: search, and a company's rules.
fn beyond(table: Operations<App>) -> Operations<App> {
    table
        .bind(Op::get("/tickets/search", "searchTickets", TICKETS_READ), tickets::search::search)
        .bind(Op::get("/settings", "getSettings", SETTINGS_READ), company_rules::read::<TicketRules>)
        .bind(Op::put("/settings", "updateSettings", SETTINGS_UPDATE), company_rules::update::<TicketRules>)
}
