//! Rules of units and their position in the tree. Pure.

use contract::FieldProblem;
use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, UnitId};
use serde::Serialize;
use service::ApiError;

/// The type of a root unit.
pub(crate) const COMPANY: &str = "company";
/// Longest name, in characters.
const MAX_NAME: usize = 200;
/// Longest type key, in characters.
const MAX_TYPE_KEY: usize = 64;
/// Longest code, in characters.
const MAX_CODE: usize = 32;
/// Maximum number of levels below a company.
const MAX_DEPTH: i16 = 32;

/// `OrgUnit` of the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgUnit {
    pub(crate) id: UnitId,
    pub(crate) type_key: String,
    pub(crate) parent_id: Option<UnitId>,
    pub(crate) code: String,
    pub(crate) name: String,
    pub(crate) is_active: bool,
}

/// A unit with its company and depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) unit: OrgUnit,
    pub(crate) company: CompanyId,
    pub(crate) depth: i16,
}

/// The properties of a parent that a new unit depends on.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    pub(crate) company: CompanyId,
    pub(crate) type_key: String,
    pub(crate) depth: i16,
}

/// `OrgUnitCreateRequest`, with the code in upper case.
#[derive(Clone, Debug)]
pub(crate) struct NewUnit {
    pub(crate) type_key: String,
    pub(crate) parent: Option<UnitId>,
    pub(crate) code: String,
    pub(crate) name: String,
}

impl FromBody for NewUnit {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let type_key = fields.text("typeKey", Text::line(MAX_TYPE_KEY));
        let parent = fields.optional_uuid("parentId");
        let code = read_code(fields);
        let name = fields.text("name", Text::title(MAX_NAME));
        Some(Self { type_key: type_key?, parent: parent?, code: code?, name: name? })
    }
}

/// Reads the code in upper case. Converts only ASCII letters: `ß` would become `SS`, which the client never sent.
fn read_code(fields: &mut Fields<'_>) -> Option<String> {
    let code = fields.text("code", Text::line(MAX_CODE))?.to_ascii_uppercase();
    if is_code(&code) {
        return Some(code);
    }
    fields.refuse("code", "pattern", "^[A-Z0-9][A-Z0-9_-]{0,31}$ in upper case")
}

fn is_code(code: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    code.as_bytes().first().is_some_and(plain)
        && code.len() <= MAX_CODE
        && code.bytes().all(|byte| plain(&byte) || matches!(byte, b'_' | b'-'))
}

/// The requested position of a new unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A company, the root of its own tree.
    Root,
    /// Below this unit.
    Below(UnitId),
}

impl NewUnit {
    /// Returns the requested position: a company has no parent; every other unit has one.
    pub(crate) fn place(&self) -> Result<Place, ApiError> {
        match (self.type_key == COMPANY, self.parent) {
            (true, None) => Ok(Place::Root),
            (false, Some(parent)) => Ok(Place::Below(parent)),
            (true, Some(_)) => Err(refused("parentId", "root", "a company has no parent")),
            (false, None) => Err(refused("parentId", "required", "only a company has no parent")),
        }
    }

    /// Builds the new company.
    pub(crate) fn into_company(self) -> Placed {
        let company = CompanyId::mint();
        self.placed(UnitId::from(company.as_uuid()), company, 0)
    }

    /// Builds the new unit below `parent`; `allowed_parents` is `None` if its type does not exist.
    pub(crate) fn below(
        self,
        parent: Option<&Parent>,
        allowed_parents: Option<&[String]>,
    ) -> Result<Placed, ApiError> {
        let mut problems = Vec::new();
        if allowed_parents.is_none() {
            problems.push(FieldProblem::new("typeKey", "unknown", "no such type of unit"));
        }
        let Some(parent) = parent else {
            problems.push(FieldProblem::new("parentId", "unknown", "no such unit"));
            return Err(ApiError::unprocessable(&problems));
        };
        if allowed_parents.is_some_and(|allowed| !allowed.contains(&parent.type_key)) {
            let message = format!("a {} cannot be below a {}", self.type_key, parent.type_key);
            problems.push(FieldProblem::new("parentId", "type", message));
        }
        if parent.depth >= MAX_DEPTH {
            problems.push(FieldProblem::new("parentId", "depth", format!("at most {MAX_DEPTH} levels")));
        }
        if problems.is_empty() {
            return Ok(self.placed(UnitId::mint(), parent.company, parent.depth + 1));
        }
        Err(ApiError::unprocessable(&problems))
    }

    fn placed(self, id: UnitId, company: CompanyId, depth: i16) -> Placed {
        let unit = OrgUnit {
            id,
            type_key: self.type_key,
            parent_id: self.parent,
            code: self.code,
            name: self.name,
            is_active: true,
        };
        Placed { unit, company, depth }
    }
}

fn refused(path: &str, rule: &'static str, message: &str) -> ApiError {
    ApiError::unprocessable_field(path, rule, message)
}

#[cfg(test)]
mod tests {
    use contract::fields::parse;
    use serde_json::json;

    use super::*;

    fn code_of(code: &str) -> Result<String, String> {
        parse::<NewUnit>(&json!({"typeKey": "company", "code": code, "name": "n"}))
            .map(|unit| unit.code)
            .map_err(|problems| problems.into_iter().map(|problem| problem.rule.into_owned()).collect())
    }

    #[test]
    fn codes_are_upper_cased_and_then_held_to_the_pattern() {
        assert_eq!(code_of("ab_1-c"), Ok("AB_1-C".to_owned()));
        assert_eq!(code_of(&"a".repeat(32)), Ok("A".repeat(32)));
        assert_eq!(code_of(&"a".repeat(33)), Err("length".to_owned()));
        for bad in ["-a", "_a", "a b", "straße", "ſ", "ı", "a.b"] {
            assert_eq!(code_of(bad), Err("pattern".to_owned()), "{bad}");
        }
    }

    fn below(depth: i16, allowed: Option<&[String]>) -> Result<Placed, ApiError> {
        let new = NewUnit {
            type_key: "team".to_owned(),
            parent: Some(UnitId::mint()),
            code: "T".to_owned(),
            name: "Team".to_owned(),
        };
        let parent = Parent { company: CompanyId::mint(), type_key: "department".to_owned(), depth };
        new.below(Some(&parent), allowed)
    }

    #[test]
    fn depth_and_parent_type_have_limits() {
        let allowed = ["department".to_owned()];
        assert_eq!(below(31, Some(&allowed)).expect("the deepest level").depth, 32);
        assert!(matches!(below(32, Some(&allowed)), Err(ApiError::Unprocessable { .. })));
        assert!(matches!(below(0, Some(&[])), Err(ApiError::Unprocessable { .. })));
        assert!(matches!(below(0, None), Err(ApiError::Unprocessable { .. })));
    }
}
