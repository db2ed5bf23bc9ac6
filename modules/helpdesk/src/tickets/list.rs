//! Lists tickets.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use serde::Serialize;
use service::query::both;
use service::{ApiError, Data, LimitedRead, Permit, Query};

use super::rules::{MAX_ROWS, MAX_TEXT, Status, View};
use super::store;
use super::viewer::Viewer;
use crate::App;

/// The header that marks a list as truncated.
const TRUNCATED: HeaderName = HeaderName::from_static("x-result-truncated");

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Response, ApiError> {
    let (view, status) =
        both(query.word("view", View::WORDS, View::Mine), query.optional_word("status", Status::WORDS))?;
    let (viewer, found) = match view {
        View::All => {
            let found = store::list_all(&app.core.pool, &permit, status);
            let (viewer, found) = tokio::try_join!(Viewer::of(&app, &permit), found)?;
            (viewer.into_agent(), found)
        }
        View::Mine => {
            let viewer = Viewer::member(&app, &permit).await?;
            let found = store::list_own(&app.core.pool, &permit, status, viewer.place.as_ref()).await?;
            (viewer, found)
        }
    };
    let (found, is_truncated) =
        cut_text(found, MAX_ROWS, |ticket| ticket.title.len() + ticket.description.len());
    Ok(answer(viewer.all_shown(found).await?, is_truncated))
}

/// Returns the first rows, and whether there were more.
fn cut<T>(mut rows: Vec<T>, max: usize) -> (Vec<T>, bool) {
    let is_truncated = rows.len() > max;
    rows.truncate(max);
    (rows, is_truncated)
}

/// Returns the first rows, at most `max` and at most [`MAX_TEXT`] bytes of text together, and whether there were more.
pub(crate) fn cut_text<T>(rows: Vec<T>, max: usize, text: impl Fn(&T) -> usize) -> (Vec<T>, bool) {
    let mut bytes: usize = 0;
    let fitting = rows.iter().take(max).take_while(|row| {
        bytes = bytes.saturating_add(text(row));
        bytes <= MAX_TEXT
    });
    let fitting = fitting.count();
    cut(rows, fitting)
}

/// Builds a 200 response that says whether the list was truncated.
pub(crate) fn answer<T: Serialize>(data: T, is_truncated: bool) -> Response {
    let mut response = Data(data).into_response();
    if is_truncated {
        response.headers_mut().insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_up_to_the_last_byte_and_up_to_the_last_row() {
        let cut = |rows: &[usize], max| cut_text(rows.to_vec(), max, |bytes| *bytes);
        assert_eq!(cut(&[], 3), (vec![], false));
        assert_eq!(cut(&[1, 2, 3], 3), (vec![1, 2, 3], false));
        assert_eq!(cut(&[1, 2, 3, 4], 3), (vec![1, 2, 3], true));
        assert_eq!(cut(&[MAX_TEXT - 1, 1], 3), (vec![MAX_TEXT - 1, 1], false));
        assert_eq!(cut(&[MAX_TEXT - 1, 2], 3), (vec![MAX_TEXT - 1], true));
        assert_eq!(cut(&[MAX_TEXT - 1, 2, 0], 3), (vec![MAX_TEXT - 1], true), "nothing is left out between");
    }
}
