//! The people and things of the demo company. Data only; a second run recognises them by their codes.

/// Code and name of the company.
pub(super) const COMPANY: (&str, &str) = ("NORTHWIND", "Northwind Studio");

/// A unit below the company.
pub(super) struct Unit {
    pub(super) code: &'static str,
    pub(super) kind: &'static str,
    /// Code of the unit above.
    pub(super) parent: &'static str,
    pub(super) name: &'static str,
}

/// Parents before children.
pub(super) const UNITS: [Unit; 7] = [
    Unit { code: "PRODUCT", kind: "business_unit", parent: COMPANY.0, name: "Product" },
    Unit { code: "ENG", kind: "department", parent: "PRODUCT", name: "Engineering" },
    Unit { code: "DESIGN", kind: "department", parent: "PRODUCT", name: "Design" },
    Unit { code: "ENG-WEB", kind: "team", parent: "ENG", name: "Web team" },
    Unit { code: "SALES", kind: "business_unit", parent: COMPANY.0, name: "Sales" },
    Unit { code: "NORTH", kind: "territory", parent: "SALES", name: "Northern region" },
    Unit { code: "OFFICE", kind: "department", parent: COMPANY.0, name: "Office and finance" },
];

/// A member; `login` is the user of the identity provider that is linked to it.
pub(super) struct Member {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    pub(super) login: Option<&'static str>,
}

const fn member(code: &'static str, name: &'static str) -> Member {
    Member { code, name, login: None }
}

const fn user(code: &'static str, name: &'static str, login: &'static str) -> Member {
    Member { code, name, login: Some(login) }
}

/// Users who can log in besides the administrator.
pub(super) const LOGINS: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// All members. The first, [`ADMINISTRATOR`], is the platform's administrator, under whatever login.
pub(super) const MEMBERS: [Member; 14] = [
    member(ADMINISTRATOR, "Robin Administrator"),
    user("N001", "Alice Andersson", "alice"),
    user("N002", "Bob Baker", "bob"),
    user("N003", "Carol Castillo", "carol"),
    user("N004", "Dave Dubois", "dave"),
    member("N005", "Erin Eriksen"),
    member("N006", "Farid Farouk"),
    member("N007", "Grace Goldberg"),
    member("N008", "Hiro Hayashi"),
    member("N009", "Ines Ivanova"),
    member("N010", "Jonas Jensen"),
    member("N011", "Kim Kowalski"),
    member("N012", "Lena Lindqvist"),
    member("N013", "Marco Moretti"),
];

/// Code of the administrator's member.
pub(super) const ADMINISTRATOR: &str = "N000";

/// A position and the code of the member who holds it.
pub(super) struct Position {
    pub(super) code: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) holder: Option<&'static str>,
}

const fn position(
    code: &'static str,
    title: &'static str,
    unit: &'static str,
    holder: &'static str,
) -> Position {
    Position { code, title, unit, holder: Some(holder) }
}

/// All positions; one is vacant.
pub(super) const POSITIONS: [Position; 7] = [
    position("CTO", "Head of engineering", "ENG", "N003"),
    position("WEB-LEAD", "Lead developer, web", "ENG-WEB", "N001"),
    position("WEB-DEV", "Developer, web", "ENG-WEB", "N002"),
    position("DESIGN-LEAD", "Lead designer", "DESIGN", "N007"),
    position("SALES-NORTH", "Account manager, north", "NORTH", "N010"),
    position("FINANCE", "Finance", "OFFICE", "N004"),
    Position { code: "WEB-JUNIOR", title: "Junior developer, web", unit: "ENG-WEB", holder: None },
];

/// A group and its members, by code.
pub(super) struct Group {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    pub(super) members: &'static [&'static str],
}

/// Code of the group that may read everyone's weeks.
pub(super) const LEADS: &str = "LEADS";

/// All groups.
pub(super) const GROUPS: [Group; 3] = [
    Group { code: LEADS, name: "Team leads", members: &["N003", "N007"] },
    Group { code: "WEB", name: "Everybody on the web team", members: &["N001", "N002", "N005", "N006"] },
    Group { code: "SOCIAL", name: "Friday cake", members: &["N001", "N004", "N009", "N012"] },
];

/// Code and name of a project, and whether time may be recorded on it.
pub(super) const PROJECTS: [(&str, &str, bool); 4] = [
    ("SHOP", "Web shop for Lakeside Books", true),
    ("INTRA", "Intranet of the harbour authority", true),
    ("OWN", "Our own website", true),
    ("LEGACY", "Old web shop", false),
];

/// Pairs of member and approver, by member code.
pub(super) const APPROVERS: [(&str, &str); 3] = [("N001", "N003"), ("N002", "N003"), ("N004", "N003")];

/// What happens to last week's submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Waits,
    Approved,
    Rejected,
}

/// A user's last week: hours from Monday to Friday on each project.
pub(super) struct Week {
    pub(super) login: &'static str,
    pub(super) hours: &'static [(&'static str, [f64; 5])],
    pub(super) ending: Ending,
}

/// Login of the approver.
pub(super) const DECIDER: &str = "carol";

/// The weeks that were submitted.
pub(super) const WEEKS: [Week; 3] = [
    Week {
        login: "alice",
        hours: &[("SHOP", [6.0, 8.0, 4.5, 8.0, 5.0]), ("OWN", [2.0, 0.0, 3.5, 0.0, 2.5])],
        ending: Ending::Approved,
    },
    Week { login: "bob", hours: &[("INTRA", [8.0, 7.5, 8.0, 8.0, 6.0])], ending: Ending::Waits },
    Week { login: "dave", hours: &[("OWN", [1.0, 0.0, 0.0, 0.0, 24.0])], ending: Ending::Rejected },
];

/// Name of a folder, the login of its owner, and the group that writes in it.
pub(super) const HANDBOOK: (&str, &str, &str) = ("Web team handbook", "alice", "WEB");

/// How a document is shared.
pub(super) enum Sharing {
    /// With a group, by its code, in a role.
    Group(&'static str, &'static str),
    /// With a member, by the code, in a role.
    Member(&'static str, &'static str),
    /// With the whole company, by this general access.
    Company(&'static str),
}

/// A document; its title is what a second run recognises.
pub(super) struct Document {
    /// A login.
    pub(super) owner: &'static str,
    pub(super) title: &'static str,
    pub(super) body: &'static str,
    pub(super) in_handbook: bool,
    pub(super) sharing: Sharing,
}

/// One of each kind of sharing.
pub(super) const DOCUMENTS: [Document; 3] = [
    Document {
        owner: "alice",
        title: "Launching a web shop",
        body: "1. The customer signs the texts.\n2. Payment is tried with one cent.\n3. Not on a Friday.",
        in_handbook: true,
        sharing: Sharing::Group(LEADS, "commenter"),
    },
    Document {
        owner: "bob",
        title: "Meeting notes, harbour authority",
        body: "They want the tide table on the first page.",
        in_handbook: false,
        sharing: Sharing::Member("N001", "editor"),
    },
    Document {
        owner: "carol",
        title: "Travel policy",
        body: "Second class up to six hours, first class beyond. Receipts within six weeks.",
        in_handbook: false,
        sharing: Sharing::Company("company_view"),
    },
];

/// Key and label of the channel that everyone reads.
pub(super) const NEWS: (&str, &str) = ("news", "News");

/// Subject and text of the message in it; the subject is what a second run recognises.
pub(super) const WELCOME: (&str, &str) =
    ("Welcome to Northwind", "Weeks are submitted on Fridays. If you find something odd, tell the office.");

/// Code of the group that works on tickets.
pub(super) const AGENTS: &str = "WEB";

/// A ticket; the title is what a second run recognises.
pub(super) struct Ticket {
    pub(super) login: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) priority: &'static str,
    /// Whether it is assigned to [`AGENTS`].
    pub(super) is_assigned: bool,
    /// Author's login and text of a comment.
    pub(super) comment: Option<(&'static str, &'static str)>,
    pub(super) status: &'static str,
}

/// The tickets.
pub(super) const TICKETS: [Ticket; 3] = [
    Ticket {
        login: "dave",
        title: "The projector in the large room stays dark",
        description: "Since Monday. The lamp blinks twice and goes out.",
        priority: "high",
        is_assigned: true,
        comment: Some(("bob", "A new lamp is ordered; it comes on Thursday.")),
        status: "in_progress",
    },
    Ticket {
        login: "carol",
        title: "No login to the harbour authority's test system",
        description: "The password of last year is refused.",
        priority: "normal",
        is_assigned: false,
        comment: None,
        status: "open",
    },
    Ticket {
        login: "alice",
        title: "A second screen for the corner desk",
        description: "",
        priority: "low",
        is_assigned: true,
        comment: Some(("alice", "It is there, thanks!")),
        status: "resolved",
    },
];

/// Reason for the rejected week.
pub(super) const REJECTION: &str = "24 hours on Friday? Please look again.";
