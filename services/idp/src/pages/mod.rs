//! The provider's HTML pages, in English and German: their common frame and headers, and the escaping of everything from
//! outside. Only passkeys need a script, because browsers offer them to scripts alone. What a page says is decided
//! elsewhere.

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
/// Script of the pages that ask for a passkey, served at [`SCRIPT_PATH`].
pub(crate) const SCRIPT: &str = include_str!("passkey.js");
/// Beside [`STYLE_PATH`].
pub(crate) const SCRIPT_PATH: &str = "/resources/passkey.js";
/// The name on the pages of what a user signs in to.
pub(crate) const PRODUCT: &str = "Platform";

/// Forbids scripts, foreign resources and framing. `form-action` is omitted on purpose: browsers also apply it to the
/// redirect after the form, which leads to the client.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The same policy with the provider's one script, which creates no markup from text.
const POLICY_WITH_SCRIPT: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

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

/// Allows [`SCRIPT`] on a page that asks for a passkey.
pub(crate) fn allow_script(response: &mut Response) {
    let policy = HeaderValue::from_static(POLICY_WITH_SCRIPT);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
}

/// A form that an authenticator answers: `ceremony` is `get` or `create`, and the script writes the answer into the field
/// `answer`. With `is_hidden` it stays hidden until the script runs.
struct CeremonyForm<'a> {
    id: &'a str,
    action: &'a str,
    ceremony: &'a str,
    options: &'a str,
    answer: &'a str,
    content: &'a str,
    is_hidden: bool,
    /// Shown when the ceremony fails in the browser.
    failed: &'a str,
}

fn ceremony_form(form: &CeremonyForm<'_>) -> String {
    format!(
        "<form id=\"{id}\" action=\"{action}\" method=\"post\" data-ceremony=\"{ceremony}\" data-answer=\"{answer}\" \
         data-options=\"{options}\"{hidden}>\n<input name=\"{answer}\" type=\"hidden\">\n\
         <p class=\"alert\" role=\"alert\" hidden>{failed}</p>\n{content}</form>\n\
         <script src=\"{SCRIPT_PATH}\" defer></script>",
        id = form.id,
        action = escape(form.action),
        ceremony = form.ceremony,
        options = escape(form.options),
        answer = form.answer,
        hidden = if form.is_hidden { " hidden" } else { "" },
        failed = form.failed,
        content = form.content,
    )
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
