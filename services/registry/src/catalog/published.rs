//! An edition of the catalog with its rendered responses.

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use contract::catalog::{CatalogSnapshot, REVISION_HEADER};
use contract::envelope::DataBody;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use service::ApiError;

use super::rules::Catalog;

/// An edition of the catalog with its snapshot and rendered responses.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) catalog: Catalog,
    pub(crate) snapshot: CatalogSnapshot,
    pub(crate) capabilities: Representation,
    pub(crate) entries: Representation,
}

impl Published {
    /// Renders the responses that contain the whole catalog.
    ///
    /// # Errors
    /// Fails if rendering fails, which is a bug.
    pub(crate) fn of(catalog: Catalog) -> Result<Self, ApiError> {
        let revision = catalog.edition.revision;
        Ok(Self {
            snapshot: catalog.snapshot(),
            capabilities: Representation::of(revision, catalog.capabilities())?,
            entries: Representation::of(revision, catalog.entries())?,
            catalog,
        })
    }
}

/// A response body with its entity tag and revision. The tag is a hash of the body, so tags are equal exactly if the
/// bodies are, across processes, databases and revisions.
#[derive(Clone, Debug)]
pub(crate) struct Representation {
    body: Bytes,
    tag: HeaderValue,
    revision: HeaderValue,
}

impl Representation {
    fn of(revision: i64, data: impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(&DataBody { data }).map_err(ApiError::internal)?;
        let tag = URL_SAFE_NO_PAD.encode(digest(&SHA256, &body));
        let tag = HeaderValue::try_from(format!("\"{tag}\"")).map_err(ApiError::internal)?;
        Ok(Self { body: Bytes::from(body), tag, revision: HeaderValue::from(revision) })
    }

    /// Responds with 304 if `If-None-Match` contains this tag, otherwise with 200 and the body.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
        let headers = [
            (ETAG, self.tag.clone()),
            (CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
            (http::HeaderName::from_static(REVISION_HEADER), self.revision.clone()),
        ];
        if self.is_known(asked) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (headers, json, self.body.clone()).into_response()
    }

    /// Whether `If-None-Match` matches (RFC 9110, 13.1.2): `*`, or a list of tags under weak comparison. Our tags
    /// contain no comma, so splitting at commas cannot produce a false match.
    fn is_known(&self, asked: &HeaderMap) -> bool {
        let tag = self.tag.as_bytes();
        let is_this = |part: &[u8]| {
            let part = part.trim_ascii();
            part == b"*" || part.strip_prefix(b"W/").unwrap_or(part) == tag
        };
        let mut lists = asked.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
        lists.any(|list| list.split(|byte| *byte == b',').any(is_this))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_NONE_MATCH, HeaderValue::from_str(value).expect("a header's value"));
        }
        headers
    }

    #[test]
    fn only_the_very_tag_or_a_star_is_known() {
        let answer = Representation::of(7, ["a"]).expect("rendered");
        let tag = answer.tag.to_str().expect("a text").to_owned();
        let other = Representation::of(7, ["b"]).expect("rendered").tag;
        let other = other.to_str().expect("a text");
        let known = [
            vec![tag.clone()],
            vec![format!("W/{tag}")],
            vec![format!("{other} , {tag}")],
            vec!["*".to_owned()],
        ];
        for values in known {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            assert_eq!(answer.answer(&asking(&values)).status(), 304, "{values:?}");
        }
        assert_eq!(answer.answer(&asking(&[other, &tag])).status(), 304, "in the second of two fields");
        let bare = tag.trim_matches('"');
        let cut = format!("{}\"", &tag[..tag.len() - 2]);
        let longer = format!("\"{bare}0\"");
        for values in
            [vec![], vec![other], vec![bare], vec![""], vec![","], vec!["\"*\""], vec![&cut], vec![&longer]]
        {
            assert_eq!(answer.answer(&asking(&values)).status(), 200, "{values:?}");
        }
    }

    #[test]
    fn tags_are_equal_exactly_when_bodies_are() {
        let tag = |revision, data: &[&str]| Representation::of(revision, data).expect("rendered").tag;
        assert_eq!(tag(1, &["a"]), tag(2, &["a"]), "with another revision");
        assert_ne!(tag(1, &["a"]), tag(1, &["b"]));
    }
}
