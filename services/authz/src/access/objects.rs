//! `GET /internal/authz/effective-access/objects`: every object of one type, in one company, on which the bearer holds
//! one relation. The list is complete, ordered by id and paged. It is empty when `can` would deny before it checks the
//! relation. A list is not a decision: it is neither counted nor audited.

use axum::extract::State;
use contract::decision::{AccessRequest, MAX_NAME, ObjectRef, Scope};
use contract::id::CompanyId;
use contract::page::{Page, PageRequest};
use service::{ApiError, Caller, Data, Query};

use crate::App;
use crate::decision::{self, Undecided};
use crate::engine::facts::{Place, Question, SubjectRef, deciding_module};
use crate::engine::{Engine, Known, Listed, Listing, Window};

/// Maximum number of attempts per list while the catalog changes; past it, registry counts as unavailable.
const ATTEMPTS: usize = 4;

/// The query of a list.
struct Wanted {
    object_type: String,
    relation: String,
    company: CompanyId,
    page: PageRequest,
}

impl Wanted {
    fn read(query: &Query) -> Result<Self, ApiError> {
        let names = service::query::both(name(query, "objectType"), name(query, "relation"));
        let place = service::query::both(query.id("companyId"), query.page());
        let ((object_type, relation), (company, page)) = service::query::both(names, place)?;
        Ok(Self { object_type, relation, company, page })
    }
}

fn name(query: &Query, field: &'static str) -> Result<String, ApiError> {
    let text = query.text(field, MAX_NAME)?.filter(|text| !text.is_empty());
    text.map(ToOwned::to_owned).ok_or_else(|| ApiError::validation_field(field, "required", "required"))
}

/// Lists for the bearer only.
pub async fn objects(
    State(app): State<App>,
    caller: Caller,
    query: Query,
) -> Result<Data<Page<ObjectRef>>, ApiError> {
    if query.get("kcSub").is_some_and(|named| named != caller.subject.as_str()) {
        return Err(ApiError::validation_field("kcSub", "actor", "absent or the bearer's own subject"));
    }
    let wanted = Wanted::read(&query)?;
    let _read = app.core.read_limit.enter(&caller.subject).await?;
    let (ids, total) = list(&*app.engine, &caller, &wanted).await?;
    let object = |id| ObjectRef { kind: wanted.object_type.clone(), id };
    let items = ids.into_iter().map(object).collect();
    Ok(Data(Page::new(wanted.page, items, i64::try_from(total).unwrap_or(i64::MAX))))
}

/// The ids of the page and the total number of objects.
async fn list(
    engine: &dyn Engine,
    caller: &Caller,
    wanted: &Wanted,
) -> Result<(Vec<String>, usize), ApiError> {
    let count = |rows: i64| usize::try_from(rows).unwrap_or(usize::MAX);
    let window = Window { skip: count(wanted.page.offset()), take: count(wanted.page.limit()) };
    for _ in 0..ATTEMPTS {
        // The engine's model knows the owner of the type.
        let question = question(caller, None);
        let request = access(wanted.company, None);
        let unread = |why| Undecided::at_once(&why, &caller.subject, &request);
        let model = engine.read(&question).await.map_err(unread)?.model;
        let owner = deciding_module(&model, None, Some((&wanted.object_type, "")));
        let module = match (owner, model.knows(&wanted.object_type, &wanted.relation)) {
            (None, _) => return Err(unknown("objectType", "a type that a module or app declares")),
            (_, Known::NoType | Known::NoRelation) => {
                return Err(unknown("relation", "a relation of the object type"));
            }
            (Some(module), Known::Yes) => module.to_owned(),
        };
        let (object_type, relation) = (wanted.object_type.clone(), wanted.relation.clone());
        let listing = Listing { object_type, relation, company: wanted.company, module, window };
        let Listed { facts, ids, total } =
            engine.list(&self::question(caller, Some(&listing)), &listing).await.map_err(unread)?;
        if facts.model.edition() != model.edition() {
            continue;
        }
        let place = facts.places.first().ok_or_else(|| ApiError::unavailable("engine"))?;
        let request = access(wanted.company, Some(&listing.module));
        let decision = decision::judge(&caller.subject, &request, &facts, place)?;
        return Ok(if decision.allowed { (ids, total) } else { (Vec::new(), 0) });
    }
    Err(ApiError::unavailable("registry"))
}

fn unknown(field: &'static str, message: &'static str) -> ApiError {
    ApiError::unprocessable_field(field, "unknown", message)
}

fn question(caller: &Caller, listing: Option<&Listing>) -> Question {
    let place = |listing: &Listing| Place {
        company: Some(listing.company),
        module: Some(listing.module.clone()),
        ..Place::default()
    };
    let places = listing.map(place).into_iter().collect();
    Question { subject: SubjectRef::user(caller.subject.as_str()), places, asks: Vec::new() }
}

/// The request for steps 1 to 6.
fn access(company: CompanyId, module: Option<&str>) -> AccessRequest {
    AccessRequest {
        feature_key: "platform.objects".to_owned(),
        scope: Scope::Company,
        module_key: module.map(ToOwned::to_owned),
        company_id: Some(company),
        required_platform_role: None,
        ..decision::superadmin_request()
    }
}
