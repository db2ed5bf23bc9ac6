//! Query parameters. A malformed value is 400 `VALIDATION_ERROR` naming the parameter; unknown names are ignored; the
//! first value of a repeated name counts.

use axum::extract::FromRequestParts;
use contract::id::parse_uuid;
use contract::page::PageRequest;
use contract::{Day, FieldProblem};
use http::request::Parts;
use percent_encoding::percent_decode_str;
use uuid::Uuid;

use crate::ApiError;

/// The decoded query.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    /// 400 when it is not UTF-8 form data.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        // serde_urlencoded replaces what is not UTF-8.
        let is_utf8 = percent_decode_str(text).decode_utf8().is_ok();
        let pairs = serde_urlencoded::from_str(text).ok().filter(|_| is_utf8);
        pairs.map(Self).ok_or_else(|| {
            ApiError::Validation(vec![FieldProblem::new("", "encoding", "the query is not UTF-8 form data")])
        })
    }

    /// A value, if present.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `page` and `pageSize`.
    ///
    /// # Errors
    /// 400 naming each value that is out of range.
    pub fn page(&self) -> Result<PageRequest, ApiError> {
        PageRequest::parse(self.get("page"), self.get("pageSize")).map_err(ApiError::Validation)
    }

    /// An optional id.
    ///
    /// # Errors
    /// 400 when it is malformed.
    pub fn optional_id<T: From<Uuid>>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match parse_uuid(text) {
            Some(uuid) => Ok(Some(uuid.into())),
            None => Err(ApiError::validation_field(name, "uuid", "a UUID")),
        }
    }

    /// A required id.
    ///
    /// # Errors
    /// 400 when it is absent or malformed.
    pub fn id<T: From<Uuid>>(&self, name: &str) -> Result<T, ApiError> {
        self.optional_id(name)?.ok_or_else(|| ApiError::validation_field(name, "required", "required"))
    }

    /// A required day.
    ///
    /// # Errors
    /// 400 when it is absent or malformed.
    pub fn day(&self, name: &str) -> Result<Day, ApiError> {
        let wrong = |rule, message: &str| ApiError::validation_field(name, rule, message);
        let text = self.get(name).ok_or_else(|| wrong("required", "required"))?;
        Day::parse(text).ok_or_else(|| wrong("date", Day::EXPECTED))
    }

    /// One value of a closed list, or `default`.
    ///
    /// # Errors
    /// 400 for any other value.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)], default: T) -> Result<T, ApiError> {
        Ok(self.optional_word(name, words)?.unwrap_or(default))
    }

    /// One value of a closed list, or none.
    ///
    /// # Errors
    /// 400 for any other value.
    pub fn optional_word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let list = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => Err(ApiError::validation_field(name, "enum", format!("one of {}", list()))),
        }
    }

    /// A text of at most `max` characters, or `None`.
    ///
    /// # Errors
    /// 400 when it is longer or holds U+0000.
    pub fn text(&self, name: &str, max: usize) -> Result<Option<&str>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if text.chars().count() > max {
            return Err(ApiError::validation_field(name, "length", format!("at most {max} characters")));
        }
        if text.contains('\0') {
            return Err(ApiError::validation_field(name, "control", "no U+0000"));
        }
        Ok(Some(text))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

/// Combines two readings of one query, so that the problems of both are reported together.
///
/// # Errors
/// The problems of both, or the first error of another kind.
pub fn both<A, B>(left: Result<A, ApiError>, right: Result<B, ApiError>) -> Result<(A, B), ApiError> {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok((left, right)),
        (Err(ApiError::Validation(mut problems)), Err(ApiError::Validation(more))) => {
            problems.extend(more);
            Err(ApiError::Validation(problems))
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_is_not_utf8_is_refused_and_not_read_otherwise() {
        let read = |text: &str| Query::parse(text).map(|query| query.get("q").map(str::to_owned));
        assert_eq!(read("a=1&q=%C3%A4+b%2526").ok(), Some(Some("\u{e4} b%26".to_owned())), "control");
        for wrong in ["q=%ff", "q=a%C3", "%fe=1&q=a", "q=%C3%28"] {
            assert!(matches!(read(wrong), Err(ApiError::Validation(_))), "{wrong}");
        }
    }

    #[test]
    fn both_tells_every_wrong_value() {
        let wrong = |name: &str| Err::<(), _>(ApiError::validation_field(name, "enum", ""));
        let Err(ApiError::Validation(problems)) = both(wrong("view"), wrong("status")) else {
            panic!("two wrong values are a validation error");
        };
        assert_eq!(
            problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(),
            ["view", "status"]
        );
        assert!(both(Ok(1), wrong("status")).is_err());
        assert!(both(Ok(1), Ok(2)).is_ok_and(|read| read == (1, 2)));
    }
}
