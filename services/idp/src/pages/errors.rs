//! The middleware that writes error pages. Refusals carry only a message; this layer turns them into pages in the
//! request's language, with its correlation id.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contract::CorrelationId;
use service::Correlation;

use super::{Lang, answer, login};
use crate::form::Params;
use crate::refusal::PageMessage;

/// Replaces the response of a refused request with an error page.
pub(crate) async fn write(Correlation(correlation): Correlation, request: Request, next: Next) -> Response {
    let query = Params::of_query(request.uri().query()).unwrap_or_default();
    let lang = Lang::of(query.get("ui_locales"), request.headers());
    let response = next.run(request).await;
    render(response, lang, &correlation)
}

fn render(response: Response, lang: Lang, correlation: &CorrelationId) -> Response {
    let (parts, body) = response.into_parts();
    let Some(message) = parts.extensions.get::<PageMessage>() else {
        return Response::from_parts(parts, body);
    };
    drop::<Body>(body);
    let page = login::error(lang, &message.text(lang.texts()), correlation.as_str());
    (parts.status, answer(page)).into_response()
}
