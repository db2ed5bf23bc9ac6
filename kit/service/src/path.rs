//! Path parameters. A malformed id is 400 where the specification lists 400 for the route, and 404 otherwise; the
//! handler decides which.

use axum::extract::{FromRequestParts, RawPathParams};
use contract::Subject;
use contract::id::parse_uuid;
use http::request::Parts;
use uuid::Uuid;

use crate::ApiError;

/// The decoded parameters of the matched route.
#[derive(Clone, Debug, Default)]
pub struct PathParams(Vec<(String, String)>);

impl PathParams {
    /// A parameter as text; empty, and so never a valid value, for a name that the route does not have.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    /// An id.
    ///
    /// # Errors
    /// 400 `BAD_REQUEST` when it is malformed.
    pub fn id<T: From<Uuid>>(&self, name: &str) -> Result<T, ApiError> {
        self.parsed(name).ok_or_else(|| ApiError::BadRequest(format!("{name} must be a UUID").into()))
    }

    /// Checks that every parameter whose name ends in `Id` is a UUID.
    ///
    /// # Errors
    /// 400 `BAD_REQUEST` when one is malformed.
    pub(crate) fn check_ids(&self) -> Result<(), ApiError> {
        let mut ids = self.0.iter().filter(|(name, _)| name.ends_with("Id"));
        ids.try_for_each(|(name, _)| self.id::<Uuid>(name).map(drop))
    }

    /// The id of the object that a module's route addresses: the first id after the company's.
    pub(crate) fn object(&self) -> Option<Uuid> {
        let ids = self.0.iter().filter(|(name, _)| name.ends_with("Id") && name != "companyId");
        ids.map(|(_, value)| parse_uuid(value)).next().flatten()
    }

    /// An id on a route that lists no 400.
    ///
    /// # Errors
    /// 404 when it is malformed: no such thing can exist.
    pub fn id_or_not_found<T: From<Uuid>>(&self, name: &str, what: &'static str) -> Result<T, ApiError> {
        self.parsed(name).ok_or(ApiError::NotFound(what.into()))
    }

    /// An id, or `None` when it is malformed.
    #[must_use]
    pub fn parsed<T: From<Uuid>>(&self, name: &str) -> Option<T> {
        parse_uuid(self.text(name)).map(T::from)
    }

    /// A subject, or `None` when the text cannot be one.
    #[must_use]
    pub fn subject(&self, name: &str) -> Option<Subject> {
        Subject::parse(self.text(name))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::BadRequest("the path is not UTF-8".into()))?;
        Ok(Self(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}
