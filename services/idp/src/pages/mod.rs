//! The provider's HTML pages, in English and German, without scripts: their common frame and headers, and the escaping
//! of everything from outside. What a page says is decided elsewhere.

pub(crate) mod account;
pub(crate) mod errors;
pub(crate) mod lang;
pub(crate) mod login;
mod qr;
pub(crate) mod recovery;
pub(crate) mod texts;

use axum::response::{Html, IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue};

pub(crate) use lang::Lang;
use texts::Texts;

/// Style of every page, served at [`STYLE_PATH`].
pub(crate) const STYLE: &str = include_str!("page.css");
/// The path to which the gateway forwards requests for the provider's static files.
pub(crate) const STYLE_PATH: &str = "/resources/login.css";
/// The name on the pages of what a user signs in to.
pub(crate) const PRODUCT: &str = "Platform";

/// Forbids scripts, foreign resources and framing. `form-action` is omitted on purpose: browsers also apply it to the
/// redirect after the form, which leads to the client.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How wide a page is.
#[derive(Clone, Copy)]
enum Width {
    /// One form.
    Narrow,
    /// Several sections.
    Wide,
}

/// Builds a response from a page, with the headers of every page.
pub(crate) fn answer(page: String) -> Response {
    let mut response = Html(page).into_response();
    protect(&mut response);
    response
}

/// Builds a response from an account page. With `no-referrer`, browsers would send `Origin: null` with its forms; its
/// addresses contain no secrets.
pub(crate) fn answer_account(page: String) -> Response {
    let mut response = answer(page);
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Sets the headers of every page.
pub(crate) fn protect(response: &mut Response) {
    let headers: [(HeaderName, &'static str); 5] = [
        (CACHE_CONTROL, "no-store, must-revalidate, max-age=0"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

fn page(texts: &Texts, width: Width, title: &str, content: &str) -> String {
    let (class, head) = match width {
        Width::Narrow => ("narrow", format!("<p class=\"product\">{PRODUCT}</p>")),
        Width::Wide => (
            "wide",
            format!(
                "<header><p class=\"product\">{PRODUCT}</p><a href=\"/\">{}</a></header>",
                escape(texts.to_start)
            ),
        ),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"{lang}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex, nofollow\">\n<title>{title} · {PRODUCT}</title>\n\
         <link rel=\"stylesheet\" href=\"{STYLE_PATH}\">\n</head>\n<body class=\"{class}\">\n{head}\n\
         <main>\n{content}\n</main>\n</body>\n</html>\n",
        lang = texts.lang,
        title = escape(title),
    )
}

fn hidden(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| {
        format!("<input name=\"{}\" type=\"hidden\" value=\"{}\">\n", escape(name), escape(value))
    };
    fields.iter().map(field).collect()
}

/// The message why a form is shown again; fields refer to it by its id.
fn alert(problem: Option<&str>) -> String {
    problem.map_or_else(String::new, |problem| {
        format!("<p id=\"input-error\" class=\"alert\" role=\"alert\">{}</p>\n", escape(problem))
    })
}

/// Attributes of an invalid field.
const fn invalid(is_invalid: bool) -> &'static str {
    if is_invalid { " aria-invalid=\"true\" aria-describedby=\"input-error\"" } else { "" }
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
