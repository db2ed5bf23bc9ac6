//! The pages a person sees: the login form, the page after a logout and the error page, with the ids and field names that clients of Keycloak's
//! pages look for. Everything that comes from outside is escaped here.

use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue};

/// Style of both pages, served at [`STYLE_PATH`].
pub(crate) const STYLE: &str = include_str!("page.css");
/// Where the edge forwards the provider's static files to.
pub(crate) const STYLE_PATH: &str = "/resources/login.css";

/// No script at all, nothing from elsewhere, in nobody's frame. `form-action` is left out on purpose: browsers apply it
/// to the redirect after the form too, and that leads to the client.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the login form shows.
pub(crate) struct Form<'a> {
    pub(crate) realm: &'a str,
    pub(crate) action: &'a str,
    pub(crate) username: &'a str,
    /// Why it is shown again.
    pub(crate) problem: Option<&'a str>,
}

/// The login form.
pub(crate) fn login(form: &Form<'_>) -> String {
    let problem = form.problem.map_or_else(String::new, |problem| {
        format!("<p id=\"input-error\" role=\"alert\" aria-live=\"polite\">{}</p>\n", escape(problem))
    });
    let invalid = if form.problem.is_some() { "true" } else { "" };
    let content = format!(
        "<h1 id=\"kc-page-title\">Sign in</h1>\n{problem}\
         <form id=\"kc-form-login\" action=\"{action}\" method=\"post\">\n\
         <label for=\"username\">User name or e-mail</label>\n\
         <input id=\"username\" name=\"username\" type=\"text\" value=\"{username}\" autocomplete=\"username\" \
         autofocus required maxlength=\"255\" aria-invalid=\"{invalid}\">\n\
         <label for=\"password\">Password</label>\n\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required \
         maxlength=\"256\" aria-invalid=\"{invalid}\">\n\
         <input id=\"id-hidden-input\" name=\"credentialId\" type=\"hidden\">\n\
         <button id=\"kc-login\" name=\"login\" type=\"submit\">Sign in</button>\n</form>",
        action = escape(form.action),
        username = escape(form.username),
    );
    page(&format!("Sign in to {}", form.realm), &content)
}

/// The question before a logout that no ID token vouches for; `fields` are sent back.
pub(crate) fn confirm_logout(action: &str, fields: &[(&str, &str)]) -> String {
    let hidden = |(name, value): &(&str, &str)| {
        format!("<input name=\"{}\" type=\"hidden\" value=\"{}\">\n", escape(name), escape(value))
    };
    let title = "Do you want to sign out?";
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n<form id=\"kc-logout-confirm\" action=\"{}\" method=\"post\">\n{}\
         <button id=\"kc-logout\" name=\"confirmLogout\" type=\"submit\">Sign out</button>\n</form>",
        escape(action),
        fields.iter().map(hidden).collect::<String>(),
    );
    page(title, &content)
}

/// The page after a logout that leads nowhere else.
pub(crate) fn logged_out() -> String {
    let title = "You are logged out";
    page(title, &format!("<h1 id=\"kc-page-title\">{title}</h1>"))
}

/// The error page.
pub(crate) fn error(message: &str) -> String {
    let message = escape(message);
    let content = format!(
        "<h1 id=\"kc-page-title\">This cannot go on</h1>\n\
         <div id=\"kc-error-message\"><p class=\"instruction\">{message}</p></div>"
    );
    page("This cannot go on", &content)
}

/// The headers of every page.
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

fn page(title: &str, content: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex, nofollow\">\n<title>{}</title>\n\
         <link rel=\"stylesheet\" href=\"{STYLE_PATH}\">\n</head>\n<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n",
        escape(title)
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let nasty = "\"><script>alert('x')</script>&";
        let form = Form { realm: nasty, action: nasty, username: nasty, problem: Some(nasty) };
        for page in [login(&form), confirm_logout(nasty, &[(nasty, nasty)]), error(nasty)] {
            assert!(!page.contains("<script"), "{page}");
            assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
        }
    }
}
