//! Documents: their fields, limits and request bodies, and the role that a caller has in one.

use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, MemberId};
use contract::{Subject, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use service::clients::org::MemberContext;
use service::refusal::conflict;
use service::{ApiError, CompanyCall};

use crate::folders::rules::FolderId;

contract::typed_id!(
    /// A document of one company.
    DocumentId
);

/// Longest search text, in characters.
pub const MAX_SEARCH: usize = 100;
/// Longest title in characters: one line of a list.
pub const MAX_TITLE: usize = 200;
/// Longest text in characters: a book of 250 pages.
pub const MAX_BODY: usize = 500_000;
/// Largest request of an operation that takes a text, in bytes: each character takes up to four.
pub const BODY_LIMIT: usize = 2 * 1024 * 1024;

contract::words! {
    /// Which documents to list.
    pub enum View {
        /// Documents that the caller owns.
        Mine = "mine",
        /// Others' documents that are shared with the caller, with a position or group of the caller, or with the whole
        /// company.
        Shared = "shared",
        /// Both of these.
        Visible = "visible",
        /// Documents that the caller owns, in the trash.
        Trash = "trash",
        /// Every document of the company.
        All = "all",
        /// Every document of the company in the trash.
        TrashAll = "trash_all",
    }
}

impl View {
    /// The views that only administrators of the module have.
    pub const OF_MANAGERS: &'static [&'static str] = &[Self::All.word(), Self::TrashAll.word()];

    /// Whether only administrators of the module have this view.
    #[must_use]
    pub const fn is_managers(self) -> bool {
        matches!(self, Self::All | Self::TrashAll)
    }

    /// Whether the view includes the caller's own documents; false for a manager's views.
    #[must_use]
    pub const fn has_own(self) -> bool {
        matches!(self, Self::Mine | Self::Visible | Self::Trash)
    }

    /// Whether the view includes others' documents that are shared with the caller.
    #[must_use]
    pub const fn has_shared(self) -> bool {
        matches!(self, Self::Shared | Self::Visible)
    }

    /// The stored state of the documents in the view.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Mine | Self::Shared | Self::Visible | Self::All => State::Active,
            Self::Trash | Self::TrashAll => State::Trashed,
        }
    }
}

contract::words! {
    /// The stored states of a document.
    pub enum State {
        /// Its tuples may not exist yet, so no operation finds it.
        Provisioning = "provisioning",
        /// In use.
        Active = "active",
        /// In the trash: only its managers see it.
        Trashed = "trashed",
    }
}

/// The caller, as far as it decides which documents are visible and in what role.
#[derive(Clone, Copy, Debug)]
pub struct Looker<'a> {
    /// The subject of the verified bearer.
    pub subject: &'a Subject,
    /// The caller's active member row; `None` where the view does not need it, or for an operator who is not a member.
    pub member: Option<&'a MemberContext>,
    /// Whether authz admitted the caller as an administrator of the module.
    pub manages: bool,
}

contract::words! {
    /// What a caller may do with a document.
    pub enum Role {
        /// Read.
        Viewer = "viewer",
        /// Comment.
        Commenter = "commenter",
        /// Write.
        Editor = "editor",
        /// Everything.
        Owner = "owner",
        /// Administer, without reading the text.
        Manager = "manager",
    }
}

impl Role {
    /// The role for a rank that SQL computes from shares, folders and general access; 0 is none.
    #[must_use]
    pub const fn of_rank(rank: i32) -> Option<Self> {
        match rank {
            1 => Some(Self::Viewer),
            2 => Some(Self::Commenter),
            3 => Some(Self::Editor),
            _ => None,
        }
    }

    /// The caller's role: the best one that opens the text, or `Manager` for an administrator without such a role. In
    /// the trash, only the owner and managers have a role.
    #[must_use]
    pub fn of(document: &StoredDocument, looker: &Looker<'_>, rank: i32) -> Option<Self> {
        if document.owner == *looker.subject {
            return Some(Self::Owner);
        }
        let open = Self::of_rank(rank).filter(|_| looker.member.is_some() && document.trashed_at.is_none());
        open.or_else(|| looker.manages.then_some(Self::Manager))
    }
}

contract::words! {
    /// What every member of the company may do with a document.
    pub enum GeneralAccess {
        /// Nothing: only shares open it.
        Restricted = "restricted",
        /// Read.
        View = "company_view",
        /// Write.
        Edit = "company_edit",
    }
}

impl GeneralAccess {
    /// Whether it gives every member of the company this relation of the document.
    #[must_use]
    pub fn gives(self, relation: &str) -> bool {
        match relation {
            "viewer" => self != Self::Restricted,
            "commenter" | "editor" => self == Self::Edit,
            _ => false,
        }
    }
}

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Minted at creation.
    pub id: DocumentId,
    /// The company that it belongs to.
    pub company: CompanyId,
    /// 1 to 200 characters.
    pub title: String,
    /// The number of its newest version.
    pub version: i32,
    /// Its stored state.
    pub state: State,
    /// The subject that owns it.
    pub owner: Subject,
    /// That subject's member row.
    pub owner_member: MemberId,
    /// That member's name at the time of creation or transfer.
    pub owner_label: Option<String>,
    /// What every member of the company may do with it.
    pub general_access: GeneralAccess,
    /// Whether editors may share it further.
    pub editors_can_share: bool,
    /// Whether it is a template.
    pub is_template: bool,
    /// The folder that contains it.
    pub folder: Option<FolderId>,
    /// The number of shares that may give access: confirmed ones, and those whose outcome is unknown.
    pub share_count: i64,
    /// When it went into the trash.
    pub trashed_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The subject that last changed it.
    pub updated_by: String,
}

/// A document as a client sees it, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    id: DocumentId,
    company_id: CompanyId,
    title: String,
    version: i32,
    owner_member_id: MemberId,
    owner_display_name: Option<String>,
    general_access: GeneralAccess,
    editors_can_share: bool,
    is_template: bool,
    folder_id: Option<FolderId>,
    my_role: Option<Role>,
    shared_with_count: i64,
    trashed_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    updated_by: String,
}

/// A document as a client sees it, with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    #[serde(flatten)]
    document: Document,
    body: String,
}

impl StoredDocument {
    /// The subject of the document's audit rows.
    #[must_use]
    pub fn audit_subject(&self) -> String {
        subject_of(self.id)
    }

    /// Renders the document for a caller with this role; `owner_name` is the owner's current name from org.
    #[must_use]
    pub fn shown(self, my_role: Option<Role>, owner_name: Option<String>) -> Document {
        Document {
            id: self.id,
            company_id: self.company,
            title: self.title,
            version: self.version,
            owner_member_id: self.owner_member,
            owner_display_name: owner_name.or(self.owner_label),
            general_access: self.general_access,
            editors_can_share: self.editors_can_share,
            is_template: self.is_template,
            folder_id: self.folder,
            my_role,
            shared_with_count: self.share_count,
            trashed_at: self.trashed_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
            updated_by: self.updated_by,
        }
    }
}

impl Document {
    /// Adds the text.
    #[must_use]
    pub const fn with_body(self, body: String) -> Detail {
        Detail { document: self, body }
    }
}

/// The search text as PostgreSQL's `websearch_to_tsquery` reads it: ASCII punctuation separates words, as it does in what
/// is indexed (`migrations/0006_words_of_texts.sql`), except for quotes and a `-` in front of a word. If punctuation
/// divides such a word, its parts are excluded as a phrase.
#[must_use]
pub fn words_of(search: &str) -> String {
    let (mut is_start, mut is_quoted) = (true, false);
    let mut words = String::with_capacity(search.len() + 2);
    let mut rest = search;
    while let Some(one) = rest.chars().next() {
        rest = rest.get(one.len_utf8()..).unwrap_or_default();
        if one == '-' && is_start && !is_quoted {
            let end = rest.find(|next: char| next == '"' || next.is_whitespace()).unwrap_or(rest.len());
            let (excluded, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            words.push_str(&exclusion_of(excluded, after.starts_with('"')));
            (rest, is_start) = (after, false);
            continue;
        }
        is_quoted ^= one == '"';
        is_start = one.is_whitespace();
        words.push(if one.is_ascii_punctuation() && one != '"' { ' ' } else { one });
    }
    words
}

fn exclusion_of(word: &str, is_before_quote: bool) -> String {
    let is_sign = |one: char| one.is_ascii_punctuation();
    let parts: Vec<&str> = word.split(is_sign).filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [] if is_before_quote => "-".to_owned(),
        [] => " ".to_owned(),
        [one] => format!("-{one}"),
        _ => format!("-\"{}\"", parts.join(" ")),
    }
}

/// The subject of a document's audit rows.
#[must_use]
pub fn subject_of(id: DocumentId) -> String {
    format!("document:{id}")
}

/// 404 for an unknown document.
#[must_use]
pub fn unknown() -> ApiError {
    ApiError::NotFound("document".into())
}

/// 409 `DOCUMENT_TRASHED`.
#[must_use]
pub fn trashed() -> ApiError {
    conflict("DOCUMENT_TRASHED", "the document is in the trash", Value::Null)
}

/// The body of a request to create a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateBody {
    /// 1 to [`MAX_TITLE`] characters.
    pub title: String,
    /// At most [`MAX_BODY`] characters.
    pub body: String,
    /// The folder to create it in.
    pub folder: Option<FolderId>,
    /// Whether it is a template.
    pub is_template: bool,
}

impl CreateBody {
    /// The canonical form that an idempotency key is compared by.
    #[must_use]
    pub fn canonical(&self) -> Value {
        json!({ "title": self.title, "body": self.body, "folderId": self.folder, "isTemplate": self.is_template })
    }
}

impl FromBody for CreateBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let title = fields.text("title", Text::title(MAX_TITLE));
        let body = fields.optional_text("body", Text::prose(0, MAX_BODY));
        let folder = fields.optional_uuid("folderId");
        let is_template = fields.optional_bool("isTemplate");
        Some(Self {
            title: title?,
            body: body?.unwrap_or_default(),
            folder: folder?,
            is_template: is_template?.unwrap_or_default(),
        })
    }
}

/// The body of an update; omitted members stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateBody {
    /// 1 to [`MAX_TITLE`] characters.
    pub title: Option<String>,
    /// At most [`MAX_BODY`] characters.
    pub body: Option<String>,
    /// Whether it is a template.
    pub is_template: Option<bool>,
    /// The version that the change is based on.
    pub base_version: i32,
}

impl FromBody for UpdateBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let title = fields.optional_text("title", Text::title(MAX_TITLE));
        let body = fields.optional_text("body", Text::prose(0, MAX_BODY));
        let is_template = fields.optional_bool("isTemplate");
        let base = fields.optional_integer("baseVersion", 1..=i64::from(i32::MAX));
        let base = base.and_then(|base| fields.required("baseVersion", base));
        Some(Self {
            title: title?,
            body: body?,
            is_template: is_template?,
            base_version: i32::try_from(base?).ok()?,
        })
    }
}

/// The title and text of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// 1 to [`MAX_TITLE`] characters.
    pub title: String,
    /// At most [`MAX_BODY`] characters.
    pub body: String,
}

/// The effective changes of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The next version's title and text, if either changes.
    pub content: Option<Content>,
    /// The new template flag, if it changes.
    pub is_template: Option<bool>,
}

impl UpdateBody {
    /// Compares the body with the document and returns what changes.
    ///
    /// # Errors
    /// 409 `DOCUMENT_TRASHED`; 409 `VERSION_CONFLICT` when `base_version` is not the current version.
    pub fn of(self, document: &StoredDocument, current: &Content) -> Result<Update, ApiError> {
        check_current(document, self.base_version)?;
        let content = Content {
            title: self.title.unwrap_or_else(|| current.title.clone()),
            body: self.body.unwrap_or_else(|| current.body.clone()),
        };
        Ok(Update {
            content: (content != *current).then_some(content),
            is_template: self.is_template.filter(|flag| *flag != document.is_template),
        })
    }
}

fn check_current(document: &StoredDocument, base: i32) -> Result<(), ApiError> {
    if document.state != State::Active {
        return Err(trashed());
    }
    if document.version != base {
        let details = json!({ "currentVersion": document.version, "updatedBy": document.updated_by,
            "updatedAt": document.updated_at });
        return Err(conflict("VERSION_CONFLICT", "baseVersion is not the current version", details));
    }
    Ok(())
}

impl Update {
    /// Whether nothing changes.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.content.is_none() && self.is_template.is_none()
    }

    /// The audit row's payload: version, size, title and flag, never the text.
    #[must_use]
    pub fn told(&self, document: &StoredDocument, current: &Content) -> Map<String, Value> {
        let mut told = Map::new();
        let mut tell = |name: &str, from: Value, to: Value| {
            if from != to {
                told.insert(name.to_owned(), json!({ "from": from, "to": to }));
            }
        };
        if let Some(content) = &self.content {
            tell("version", document.version.into(), (document.version + 1).into());
            tell("title", current.title.as_str().into(), content.title.as_str().into());
            tell("size", size(&current.body).into(), size(&content.body).into());
        }
        if let Some(flag) = self.is_template {
            tell("isTemplate", document.is_template.into(), flag.into());
        }
        told
    }
}

/// The number of characters of a text.
#[must_use]
pub fn size(body: &str) -> usize {
    body.chars().count()
}

/// The body of a duplication; the title defaults to the source's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateBody {
    /// 1 to [`MAX_TITLE`] characters.
    pub title: Option<String>,
    /// The folder of the copy; none by default.
    pub folder: Option<FolderId>,
}

impl FromBody for DuplicateBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let title = fields.optional_text("title", Text::title(MAX_TITLE));
        let folder = fields.optional_uuid("folderId");
        Some(Self { title: title?, folder: folder? })
    }
}

/// The document id in the path.
///
/// # Errors
/// 400 when it is malformed, which cannot happen: the call has been checked for it.
pub fn document_of(call: &CompanyCall) -> Result<DocumentId, ApiError> {
    call.path.id("documentId")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(seconds: i64) -> Timestamp {
        time::OffsetDateTime::from_unix_timestamp(seconds).expect("a moment").into()
    }

    fn document() -> StoredDocument {
        StoredDocument {
            id: DocumentId::mint(),
            company: CompanyId::mint(),
            title: "Plan".to_owned(),
            version: 3,
            state: State::Active,
            owner: Subject::parse("bob").expect("a subject"),
            owner_member: MemberId::mint(),
            owner_label: None,
            general_access: GeneralAccess::Restricted,
            editors_can_share: true,
            is_template: false,
            folder: None,
            share_count: 0,
            trashed_at: None,
            created_at: moment(1_795_338_000),
            updated_at: moment(1_795_341_600),
            updated_by: "bob".to_owned(),
        }
    }

    fn content() -> Content {
        Content { title: "Plan".to_owned(), body: "one".to_owned() }
    }

    fn update(title: Option<&str>, body: Option<&str>, flag: Option<bool>, base: i32) -> UpdateBody {
        let text = |text: Option<&str>| text.map(ToOwned::to_owned);
        UpdateBody { title: text(title), body: text(body), is_template: flag, base_version: base }
    }

    #[test]
    fn an_update_from_another_version_is_a_conflict_that_tells_the_current_one() {
        for base in [2, 4] {
            let refused = update(None, Some("two"), None, base).of(&document(), &content());
            let Err(ApiError::Conflict { code, details, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(code, "VERSION_CONFLICT");
            let expected =
                json!({ "currentVersion": 3, "updatedBy": "bob", "updatedAt": "2026-11-22T10:00:00.000Z" });
            assert_eq!(details, expected);
        }
    }

    #[test]
    fn punctuation_separates_the_words_of_a_search_but_for_quotes_and_exclusions() {
        for (search, expected) in [
            ("server01.example.com", "server01 example com"),
            ("INC-123 -draft", "INC 123 -draft"),
            ("-\"two words\" or -a-b", "-\"two words\" or -\"a b\""),
            ("x -/var/log -server01.example.com", "x -\"var log\" -\"server01 example com\""),
            ("\"-a b\"", "\" a b\""),
            ("a - b -", "a   b  "),
            ("--a -.b ---", "-a -b  "),
            ("\"x -y.z\" -y.z", "\"x  y z\" -\"y z\""),
            ("/var/log", " var log"),
            ("a\u{3000}-ä–ö", "a\u{3000}-ä–ö"),
            ("", ""),
        ] {
            assert_eq!(words_of(search), expected, "{search}");
        }
        let all: String = (' '..='~').filter(|sign| sign.is_ascii_punctuation() && *sign != '"').collect();
        assert_eq!((all.len(), words_of(&all).trim()), (31, ""));
    }

    #[test]
    fn only_what_differs_changes_and_the_audit_row_holds_no_text() {
        let (document, current) = (document(), content());
        let same =
            update(Some("Plan"), Some("one"), Some(false), 3).of(&document, &current).expect("current");
        assert!(same.is_nothing() && same.told(&document, &current).is_empty());
        let flag = update(None, None, Some(true), 3).of(&document, &current).expect("current");
        assert_eq!((&flag.content, flag.is_template), (&None, Some(true)));
        let told = |update: Update| Value::Object(update.told(&document, &current));
        assert_eq!(told(flag), json!({ "isTemplate": { "from": false, "to": true } }));
        let text = update(None, Some("zwölf"), None, 3).of(&document, &current).expect("current");
        let expected = json!({ "version": { "from": 3, "to": 4 }, "size": { "from": 3, "to": 5 } });
        assert_eq!(told(text), expected);
    }

    #[test]
    fn the_best_role_counts_and_in_the_trash_only_owner_and_managers_have_one() {
        let (alice, bob) = (Subject::parse("alice").expect("a"), Subject::parse("bob").expect("b"));
        let member = MemberContext {
            member: MemberId::mint(),
            display_name: None,
            positions: Vec::new(),
            groups: Vec::new(),
        };
        let looker = |subject, member, manages| Looker { subject, member, manages };
        let mut document = document();
        let role = |document: &StoredDocument, looker: Looker<'_>, rank| Role::of(document, &looker, rank);
        assert_eq!(role(&document, looker(&bob, None, false), 1), Some(Role::Owner));
        for (rank, expected) in
            [(0, None), (1, Some(Role::Viewer)), (2, Some(Role::Commenter)), (3, Some(Role::Editor))]
        {
            assert_eq!(role(&document, looker(&alice, Some(&member), false), rank), expected);
        }
        assert_eq!(role(&document, looker(&alice, None, false), 3), None, "no member of the company");
        assert_eq!(role(&document, looker(&alice, Some(&member), true), 0), Some(Role::Manager));
        document.trashed_at = Some(document.updated_at);
        assert_eq!(role(&document, looker(&alice, Some(&member), false), 3), None);
        assert_eq!(role(&document, looker(&alice, Some(&member), true), 3), Some(Role::Manager));
    }
}
