//! Decides operations on one document. The document's row is looked up first, because the question to authz depends on
//! it: an unknown id asks nothing, general access asks whether the caller is a member of the company, and the trash is
//! open to managers only. The row leaves this module only together with authz's answer ([`Admitted`]).
//!
//! A right may be taken away after it was decided by and before it is used. Every such change of the document or of a
//! folder around it (a share removed or changed, access, `editorsCanShare`, the owner, the place) changes the document's
//! [`Rights`] before it is answered. The decision is made for one state of them, read before authz is asked. The rights are
//! read again and compared before the call takes effect: under the row's lock before a write ([`Admitted::lock`],
//! [`Admitted::right`]), together with the text ([`Admitted::confirmed`]), and after reading anything else
//! ([`Admitted::held`]). If they differ, the call is decided again. They do not cover changes made elsewhere, such as to
//! the caller's groups: if the call has waited, authz is asked again at the same places.

use std::ops::Deref;
use std::time::Duration;

use contract::Subject;
use contract::envelope::code;
use service::two_store::TwoStore;
use service::{
    ApiError, Around, CompanyCall, CompanyTx, Core, Feature, Hidden, HistoryEntry, ObjectPermit, Permit,
    ReadPermit,
};
use sqlx::PgPool;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::App;
use crate::documents::rights::{self, Rights};
use crate::documents::rules::{
    Content, DocumentId, GeneralAccess, State, StoredDocument, document_of, trashed, unknown,
};
use crate::documents::store;
use crate::operations::{FOLDERS_MANAGE, MANAGER};
use crate::ownership::row::Ownership;
use crate::ownership::unfinished;
use crate::placements;
use crate::placements::rules::Child;
use crate::shares::relinked;
use crate::shares::removals::{self, is_done};
use crate::shares::rules::{Level, Right, ShareId, ShareRole};

/// The part of a document's row that a decision depends on.
#[derive(Clone, Debug)]
pub(crate) struct Gist {
    pub(crate) id: DocumentId,
    pub(crate) owner: Subject,
    state: State,
    general_access: GeneralAccess,
    pub(crate) editors_can_share: bool,
    /// The rights for which the call is decided.
    pub(crate) rights: Rights,
    /// A transfer has left something to remove: an ownership tuple, the caller's own or anyone's after 10 seconds, or a
    /// share of the new owner, which another request gave meanwhile.
    is_unfinished: bool,
    /// Shares of the document and of its folders that name the caller's login through a member row.
    shares_with_login: Vec<ShareId>,
    /// Shares of the document and of its folders whose removal broke off 10 seconds ago or earlier.
    shares_to_remove: Vec<ShareId>,
    /// Transfers whose outcome has been unknown for at least 10 seconds.
    transfers_to_settle: Vec<Uuid>,
    /// Placements of the document and of its folders whose change broke off 10 seconds ago or earlier.
    moves_to_finish: Vec<Uuid>,
    /// Something that must be removed before the decision is left, because authz refuses the caller.
    is_left: bool,
}

impl Gist {
    /// Refuses an allowed call that may owe this to something that must be removed.
    fn check(&self) -> Result<(), ApiError> {
        if self.is_left { Err(ApiError::unavailable("authz")) } else { Ok(()) }
    }
}

/// authz's answer, with what it was asked for: about the document or, where general access suffices, about membership in
/// the company.
#[derive(Debug)]
pub(crate) enum Proof {
    Object(ObjectPermit, Feature),
    Module(Permit, Feature),
}

impl Deref for Proof {
    type Target = CompanyCall;

    fn deref(&self) -> &CompanyCall {
        match self {
            Self::Object(permit, _) => permit,
            Self::Module(permit, _) => permit,
        }
    }
}

/// How a call is decided.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By the operation's features.
    Usual,
    /// As one that shares the document.
    Sharing,
    /// By membership in the company.
    Member,
    /// As one that transfers the document.
    Transfer,
    /// As one that moves the document.
    Move,
}

/// How often a document or folder is looked up until nothing around it is on its way.
pub(crate) const MAX_LOOKS: usize = 3;

/// How often a call is decided before it is refused because the rights to its document keep changing. When several calls
/// change them at once, one succeeds per round of decisions.
const MAX_DECISIONS: usize = 40;

/// How long a decision is used without asking again. A call that waits for nothing takes a few milliseconds.
const FRESH: Duration = Duration::from_millis(50);
/// How long the question under a lock may take.
const CONFIRMATION_BUDGET: Duration = Duration::from_millis(500);

/// A call that authz has allowed.
#[derive(Debug)]
pub(crate) struct Admitted {
    proof: Proof,
    way: Way,
    /// How often it was decided.
    decisions: usize,
    decided_at: Instant,
    pub(crate) gist: Gist,
    /// The caller was admitted as a manager of the document (its owner included).
    pub(crate) managed: bool,
    /// The caller was admitted as a manager of a document that someone else owns.
    pub(crate) as_manager: bool,
    /// The caller manages the folder that the document lies in, and not the document, or the document is in the trash: the
    /// only move is out of that folder.
    pub(crate) takes_out: bool,
}

impl Deref for Admitted {
    type Target = CompanyCall;

    fn deref(&self) -> &CompanyCall {
        &self.proof
    }
}

impl Admitted {
    pub(crate) async fn begin(&self, core: &Core) -> Result<CompanyTx, ApiError> {
        match &self.proof {
            Proof::Object(permit, _) => permit.begin(core).await,
            Proof::Module(permit, _) => permit.begin(core).await,
        }
    }

    pub(crate) async fn history_without(
        &self,
        core: &Core,
        subject: &str,
        hidden: &[Hidden],
    ) -> Result<Vec<HistoryEntry>, ApiError> {
        match &self.proof {
            Proof::Object(permit, _) => permit.history_without(core, subject, hidden).await,
            Proof::Module(permit, _) => permit.history_without(core, subject, hidden).await,
        }
    }

    pub(crate) async fn history_around(
        &self,
        core: &Core,
        subject: &str,
        around: &Around,
    ) -> Result<Vec<HistoryEntry>, ApiError> {
        match &self.proof {
            Proof::Object(permit, _) => permit.history_around(core, subject, around).await,
            Proof::Module(permit, _) => permit.history_around(core, subject, around).await,
        }
    }

    /// Writes rows and tuples while the caller has the right by which it was admitted. A right by general access is compared
    /// under the document's lock, and membership is a condition of every grant.
    pub(crate) fn two_store(&self, app: &App) -> TwoStore {
        match &self.proof {
            Proof::Object(permit, feature) => {
                app.two_store().while_allowed(app.permits.clone(), *feature, &permit.object().id)
            }
            Proof::Module(..) => app.two_store(),
        }
    }

    /// Begins a transaction that holds the document's lock, and reads the document with its text. The call is decided again
    /// if rights to the document have changed since its decision.
    ///
    /// # Errors
    /// 404 when the document is gone; 403 and 503 from authz; 503 when rights change again and again.
    pub(crate) async fn lock(&mut self, app: &App) -> Result<(CompanyTx, StoredDocument, Content), ApiError> {
        loop {
            let mut tx = self.begin(&app.core).await?;
            let (document, content, rights) = store::lock(&mut tx, self.gist.id).await?;
            if rights == self.gist.rights && self.is_still_allowed(app).await? {
                return Ok((tx, document, content));
            }
            tx.unchanged().await?;
            self.decide_again(app).await?;
        }
    }

    /// Reads the document with its text. The call is decided again if rights to the document have changed since its
    /// decision, or it went into the trash or came out of it.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub(crate) async fn confirmed(&mut self, app: &App) -> Result<(StoredDocument, Content), ApiError> {
        loop {
            let (document, content, rights) = store::find(&app.core.pool, self).await?;
            let is_same = rights == self.gist.rights && document.state == self.gist.state;
            if is_same && self.is_still_allowed(app).await? {
                return Ok((document, content));
            }
            self.decide_again(app).await?;
        }
    }

    /// Whether the decision still held when something had been read by it. If rights to the document have changed since, or
    /// it went into the trash or came out of it, the call is decided again, and the caller reads again.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub(crate) async fn held(&mut self, app: &App) -> Result<bool, ApiError> {
        let now = gist(&app.core.pool, self, self.gist.id).await?.ok_or_else(unknown)?;
        let is_same = now.rights == self.gist.rights && now.state == self.gist.state;
        if is_same && self.is_still_allowed(app).await? {
            return Ok(true);
        }
        self.decide_again(app).await?;
        Ok(false)
    }

    /// Asks authz the same once more if the call has waited since its decision. The document's [`Rights`] do not tell what
    /// changes elsewhere: the caller leaves a group, a position or the company, or administers the module no more.
    /// The document may be locked meanwhile, so the answer has half a second.
    ///
    /// # Errors
    /// 503 when authz does not answer.
    async fn is_still_allowed(&self, app: &App) -> Result<bool, ApiError> {
        if self.decided_at.elapsed() < FRESH {
            return Ok(true);
        }
        let asked = async {
            match &self.proof {
                Proof::Object(permit, feature) => {
                    let id = permit.object().id.clone();
                    app.permits.probe_object(self, feature, id).await.map(|permit| permit.is_some())
                }
                Proof::Module(_, feature) => {
                    app.permits.probe_module(self, feature).await.map(|permit| permit.is_some())
                }
            }
        };
        timeout(CONFIRMATION_BUDGET, asked).await.unwrap_or_else(|_| Err(ApiError::unavailable("authz")))
    }

    /// Waits until the caller may read. The call is decided again if that was not at once.
    ///
    /// # Errors
    /// 429 when the caller has too many reads; as [`Self::lock`].
    pub(crate) async fn wait_to_read(&mut self, app: &App) -> Result<ReadPermit, ApiError> {
        let read = app.core.read_limit.enter(&self.subject).await?;
        if read.waited() {
            self.decide_again(app).await?;
        }
        Ok(read)
    }

    /// Whether a call was refused by [`check_rights`]; then it is decided again, and the caller repeats it.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub(crate) async fn is_decided_again(&mut self, app: &App, refused: &ApiError) -> Result<bool, ApiError> {
        let is_conflict = matches!(refused, ApiError::Conflict { code: code::CONFLICT, .. });
        if !is_conflict || self.decisions >= MAX_DECISIONS {
            return Ok(false);
        }
        let mut conn = app.core.pool.acquire().await?;
        if rights::held(&mut conn, self.company, self.gist.id).await? == self.gist.rights {
            return Ok(false);
        }
        drop(conn);
        self.decide_again(app).await?;
        Ok(true)
    }

    /// Decides the call again.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub(crate) async fn decide_again(&mut self, app: &App) -> Result<(), ApiError> {
        if self.decisions >= MAX_DECISIONS {
            return Err(ApiError::unavailable("postgres"));
        }
        let call = CompanyCall::clone(self);
        let again = match self.way {
            Way::Usual => admit_trashed(app, call).await?,
            Way::Sharing => admit_sharing_trashed(app, call).await?,
            Way::Member => admit_member(app, call).await?,
            Way::Transfer => admit_transfer(app, call).await?,
            Way::Move => admit_move(app, call).await?,
        };
        *self = Self { decisions: self.decisions + 1, ..again };
        Ok(())
    }

    /// The right with which a caller admitted by [`admit_sharing`] shares the document.
    pub(crate) const fn right(&self) -> Right {
        let level = if self.managed { Level::Whole } else { Level::Own(ShareRole::Editor) };
        Right { level, decided: Some(self.gist.rights) }
    }

    /// Whether the document is in the trash; if so, the caller was admitted as a manager.
    pub(crate) fn is_trashed(&self) -> bool {
        self.gist.state == State::Trashed
    }
}

/// Checks, under the document's lock, that no rights to it have changed since a decision.
///
/// # Errors
/// 409 `CONFLICT`; [`Admitted::is_decided_again`] decides the call again.
pub(crate) fn check_rights(decided: Rights, now: Rights) -> Result<(), ApiError> {
    if decided == now { Ok(()) } else { Err(rights_changed()) }
}

/// 409 `CONFLICT`; [`Admitted::is_decided_again`] decides the call again.
pub(crate) fn rights_changed() -> ApiError {
    ApiError::conflict("rights to the document have been changed")
}

/// Admits a call to a document that is not in the trash.
///
/// # Errors
/// 404 when there is no such document, or when it is in the trash and the caller does not manage it; 409
/// `DOCUMENT_TRASHED` for its managers; 403 and 503 from authz.
pub(crate) async fn admit(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let admitted = admit_trashed(app, call).await?;
    if admitted.is_trashed() { Err(trashed()) } else { Ok(admitted) }
}

/// Admits a call to a document that may be in the trash.
///
/// # Errors
/// As [`admit`], without the 409.
pub(crate) async fn admit_trashed(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let gist = look_up(app, &call).await?;
    let manager = managing(&call);
    if gist.state == State::Trashed {
        let proof = probe(app, &call, &gist, &manager).await?.ok_or_else(unknown)?;
        return Ok(admitted(proof, gist, true, Way::Usual));
    }
    let own = opened(&gist, call.feature);
    let is_managing = own.relation == MANAGER;
    let Some(otherwise) = call.operation.otherwise else {
        let proof = ask(app, &call, &gist, &own).await?;
        return Ok(admitted(proof, gist, is_managing, Way::Usual));
    };
    let (proof, is_managing) = match probe(app, &call, &gist, &own).await? {
        Some(proof) => (proof, is_managing),
        None => (ask(app, &call, &gist, &otherwise).await?, otherwise.relation == MANAGER),
    };
    Ok(admitted(proof, gist, is_managing, Way::Usual))
}

/// Admits a call that transfers the document. Unlike [`admit`], it leaves the remains of an earlier transfer in place
/// so that the former owner may repeat that transfer: the caller of this function finishes it, and decides any other
/// transfer again.
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_transfer(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let gist = gist(&app.core.pool, &call, document_of(&call)?).await?.ok_or_else(unknown)?;
    let manager = managing(&call);
    if gist.state == State::Trashed {
        probe(app, &call, &gist, &manager).await?.ok_or_else(unknown)?;
        return Err(trashed());
    }
    Ok(admitted(ask(app, &call, &gist, &manager).await?, gist, true, Way::Transfer))
}

/// Admits a call that moves the document: its managers unless it is in the trash, and even then those of the folder that
/// it lies in ([`Admitted::takes_out`]).
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_move(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let gist = look_up(app, &call).await?;
    let (manager, is_trashed) = (managing(&call), gist.state == State::Trashed);
    let placement =
        placements::store::of_child(&app.core.pool, call.company, Child::Document(gist.id)).await?;
    if placement.is_none() && !is_trashed {
        return Ok(admitted(ask(app, &call, &gist, &manager).await?, gist, true, Way::Move));
    }
    let by_document = match probe(app, &call, &gist, &manager).await? {
        Some(proof) if !is_trashed => return Ok(admitted(proof, gist, true, Way::Move)),
        proof => proof,
    };
    let folder = placement.filter(|placement| matches!(&*placement.state, "active" | "revoking"));
    if let Some(folder) = folder {
        let permit = app.permits.probe_object(&call, &FOLDERS_MANAGE, folder.parent).await?;
        if let Some(permit) = permit {
            let is_managing = by_document.is_some();
            let proof = by_document.unwrap_or(Proof::Object(permit, FOLDERS_MANAGE));
            let admitted = admitted(proof, gist, is_managing, Way::Move);
            return Ok(Admitted { takes_out: true, ..admitted });
        }
    }
    if is_trashed {
        return Err(if by_document.is_some() { trashed() } else { unknown() });
    }
    Ok(admitted(ask(app, &call, &gist, &manager).await?, gist, true, Way::Move))
}

/// Asks whether the caller manages the document, for a move that the manager of its folder may not make.
///
/// # Errors
/// 403 and 503 from authz; 409 `DOCUMENT_TRASHED`.
pub(crate) async fn check_manager(app: &App, admitted: &Admitted) -> Result<(), ApiError> {
    ask(app, admitted, &admitted.gist, &managing(admitted)).await?;
    if admitted.is_trashed() { Err(trashed()) } else { Ok(()) }
}

/// Admits a call that shares the document: always for its managers, for its editors if `editors_can_share` is set.
///
/// # Errors
/// As [`admit`].
pub(crate) async fn admit_sharing(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let admitted = admit_sharing_trashed(app, call).await?;
    if admitted.is_trashed() { Err(trashed()) } else { Ok(admitted) }
}

/// As [`admit_sharing`], but also admits managers to a document in the trash.
///
/// # Errors
/// As [`admit_trashed`].
pub(crate) async fn admit_sharing_trashed(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let gist = look_up(app, &call).await?;
    let manager = managing(&call);
    if gist.state == State::Trashed {
        let proof = probe(app, &call, &gist, &manager).await?.ok_or_else(unknown)?;
        return Ok(admitted(proof, gist, true, Way::Sharing));
    }
    if gist.editors_can_share && gist.owner != call.subject {
        let editor = opened(&gist, call.feature);
        if let Some(proof) = probe(app, &call, &gist, &editor).await? {
            return Ok(admitted(proof, gist, false, Way::Sharing));
        }
    }
    Ok(admitted(ask(app, &call, &gist, &manager).await?, gist, true, Way::Sharing))
}

/// Whether the caller of an admitted call shares the document, as [`admit_sharing`] would decide.
///
/// # Errors
/// 503 from authz.
pub(crate) async fn shares(app: &App, admitted: &Admitted) -> Result<bool, ApiError> {
    let gist = &admitted.gist;
    if admitted.managed || gist.owner == admitted.subject {
        return Ok(true);
    }
    if gist.editors_can_share && gist.state == State::Active {
        let editor = opened(gist, Feature { relation: ShareRole::Editor.word(), ..admitted.feature });
        if probe(app, admitted, gist, &editor).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(probe(app, admitted, gist, &managing(admitted)).await?.is_some())
}

/// Admits any active member to a document that is not in the trash, even if the member cannot open it.
///
/// # Errors
/// 404 when there is no such document or it is in the trash; 403 and 503 from authz.
pub(crate) async fn admit_member(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let gist = look_up(app, &call).await?;
    if gist.state != State::Active {
        return Err(unknown());
    }
    let member = Feature::of_module(call.feature.key, "member");
    let proof = Proof::Module(app.permits.ask_module(&call, &member).await?, member);
    Ok(admitted(proof, gist, false, Way::Member))
}

/// Admits a member to remove the member's own share. In the trash, the rules of [`admit_sharing_trashed`] apply.
///
/// # Errors
/// As [`admit_sharing_trashed`] for a document in the trash, otherwise as [`admit_member`].
pub(crate) async fn admit_own_share(app: &App, call: CompanyCall) -> Result<Admitted, ApiError> {
    let gist = look_up(app, &call).await?;
    if gist.state == State::Trashed {
        return admit_sharing_trashed(app, call).await;
    }
    admit_member(app, call).await
}

fn admitted(proof: Proof, gist: Gist, managed: bool, way: Way) -> Admitted {
    let as_manager = managed && gist.owner != proof.subject;
    let decided_at = Instant::now();
    Admitted { proof, way, decisions: 1, decided_at, gist, managed, as_manager, takes_out: false }
}

/// The feature that asks whether the caller manages the document.
fn managing(call: &CompanyCall) -> Feature {
    Feature { relation: MANAGER, operator: true, ..call.feature }
}

/// The operation's own feature, or company membership where general access suffices.
fn opened(gist: &Gist, feature: Feature) -> Feature {
    if gist.general_access.gives(feature.relation) {
        Feature::of_module(feature.key, "member")
    } else {
        feature
    }
}

async fn ask(app: &App, call: &CompanyCall, gist: &Gist, feature: &Feature) -> Result<Proof, ApiError> {
    let proof = if feature.object == service::permit::COMPANY_MODULE {
        app.permits.ask_module(call, feature).await.map(|permit| Proof::Module(permit, *feature))?
    } else {
        app.permits.ask_object(call, feature, gist.id).await.map(|permit| Proof::Object(permit, *feature))?
    };
    gist.check()?;
    Ok(proof)
}

async fn probe(
    app: &App,
    call: &CompanyCall,
    gist: &Gist,
    feature: &Feature,
) -> Result<Option<Proof>, ApiError> {
    let proof = if feature.object == service::permit::COMPANY_MODULE {
        app.permits.probe_module(call, feature).await?.map(|permit| Proof::Module(permit, *feature))
    } else {
        app.permits.probe_object(call, feature, gist.id).await?.map(|permit| Proof::Object(permit, *feature))
    };
    proof.map(|proof| gist.check().map(|()| proof)).transpose()
}

/// Looks up the document's row, finishes interrupted moves, an interrupted transfer and interrupted removals of shares,
/// and removes shares that were given to another member row of the caller's login, so that none of them affects the decision.
async fn look_up(app: &App, call: &CompanyCall) -> Result<Gist, ApiError> {
    let mut found = settled_gist(app, call, document_of(call)?).await?;
    if found.is_unfinished {
        found.is_left |= !is_done(unfinished::finish(app, call, found.id).await.map(drop))?;
    }
    found.is_left |= !is_done(removals::finish(app, call, &found.shares_to_remove).await)?;
    found.is_left |= !is_done(relinked::settle_caller(app, call, &found.shares_with_login).await)?;
    Ok(found)
}

/// Reads what the decision needs, after settling interrupted transfers, and interrupted moves of the document and of the
/// folders around it: then it has another owner, and other folders are around it.
async fn settled_gist(app: &App, call: &CompanyCall, id: DocumentId) -> Result<Gist, ApiError> {
    for look in 0..MAX_LOOKS {
        let mut found = gist(&app.core.pool, call, id).await?.ok_or_else(unknown)?;
        // A transfer with only some of its tuples stays as it is until it is repeated, and does not block other requests.
        if look == 0 && !found.transfers_to_settle.is_empty() {
            for transfer in &found.transfers_to_settle {
                app.two_store().settle_pending::<Ownership>(call.company, *transfer).await?;
            }
            continue;
        }
        if found.moves_to_finish.is_empty() {
            return Ok(found);
        }
        if !is_done(placements::unfinished::finish(app, call, &found.moves_to_finish).await)? {
            found.is_left = true;
            return Ok(found);
        }
    }
    Err(ApiError::unavailable("postgres"))
}

/// Reads what the decision needs. This is the only statement that runs before the decision, and its result is never
/// shown. `OFFSET 0` makes the planner read each folder's shares by their index.
async fn gist(pool: &PgPool, call: &CompanyCall, id: DocumentId) -> Result<Option<Gist>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT owner_kc_sub, state, general_access, editors_can_share, rights_version, md5(ARRAY(
               SELECT f.id::text || f.rights_version FROM docs.folder_ancestors a JOIN docs.folders f ON f.id = a.ancestor_id
               WHERE a.folder_id = d.folder_id ORDER BY a.distance)::text)::uuid AS "folder_rights!",
             EXISTS (SELECT FROM docs.ownerships o
               WHERE o.document_id = d.id AND o.state <> 'pending' AND o.kc_sub <> d.owner_kc_sub
                 AND (o.kc_sub = $3 OR o.attempted_at < now() - interval '10 seconds'))
               OR EXISTS (SELECT FROM docs.shares s
                 WHERE s.document_id = d.id AND s.member_id = d.owner_member_id AND s.kc_sub = d.owner_kc_sub
                   AND s.state = 'active') AS "is_unfinished!",
             ARRAY(
               SELECT o.id FROM docs.ownerships o
               WHERE o.document_id = d.id AND o.company_id = $1 AND o.state = 'pending' AND o.attempts > 0
                 AND o.attempted_at < now() - interval '10 seconds') AS "transfers_to_settle!",
             ARRAY(
               SELECT s.id FROM docs.shares s
               WHERE s.document_id = d.id AND s.company_id = $1 AND s.kc_sub = $3 AND s.member_id IS NOT NULL
                 AND s.state <> 'pending'
               UNION ALL
               SELECT s.id FROM docs.folder_ancestors a CROSS JOIN LATERAL (
                 SELECT s.id FROM docs.shares s
                 WHERE s.folder_id = a.ancestor_id AND s.company_id = $1 AND s.kc_sub = $3
                   AND s.member_id IS NOT NULL AND s.state <> 'pending' OFFSET 0) AS s
               WHERE a.folder_id = d.folder_id) AS "shares_with_login!",
             ARRAY(
               SELECT s.id FROM docs.shares s
               WHERE s.company_id = $1 AND s.state = 'revoking' AND s.member_id IS NULL
                 AND s.attempted_at < now() - interval '10 seconds'
                 AND (s.document_id = d.id OR s.folder_id IN (
                   SELECT a.ancestor_id FROM docs.folder_ancestors a WHERE a.folder_id = d.folder_id)))
               AS "shares_to_remove!",
             ARRAY(
               SELECT p.id FROM docs.placements p
               WHERE p.document_id = d.id AND p.company_id = $1 AND (p.state = 'revoking' OR p.state = 'exchanging' OR (p.state = 'pending' AND p.attempts > 0))
                 AND p.attempted_at < now() - interval '10 seconds'
               UNION ALL
               SELECT p.id FROM docs.folder_ancestors a CROSS JOIN LATERAL (
                 SELECT p.id FROM docs.placements p
                 WHERE p.folder_id = a.ancestor_id AND p.company_id = $1
                   AND (p.state = 'revoking' OR p.state = 'exchanging' OR (p.state = 'pending' AND p.attempts > 0))
                   AND p.attempted_at < now() - interval '10 seconds' OFFSET 0) AS p
               WHERE a.folder_id = d.folder_id) AS "moves_to_finish!"
           FROM docs.documents d WHERE company_id = $1 AND id = $2 AND state <> 'provisioning'"#,
        call.company.as_uuid(),
        id.as_uuid(),
        call.subject.as_str()
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Gist {
        id,
        owner: crate::store::subject(&row.owner_kc_sub)?,
        state: State::of_word(&row.state)?,
        general_access: GeneralAccess::of_word(&row.general_access)?,
        editors_can_share: row.editors_can_share,
        rights: Rights::new(row.rights_version, row.folder_rights),
        is_unfinished: row.is_unfinished,
        shares_with_login: row.shares_with_login.into_iter().map(ShareId::from).collect(),
        shares_to_remove: row.shares_to_remove.into_iter().map(ShareId::from).collect(),
        transfers_to_settle: row.transfers_to_settle,
        moves_to_finish: row.moves_to_finish,
        is_left: false,
    }))
}
