//! The pages of login and logout, with the ids and field names that clients of Keycloak's pages expect.

use super::{CeremonyForm, Lang, Width, alert, ceremony_form, escape, hidden, invalid, page};

/// The content of a login form.
pub(crate) struct Form<'a> {
    pub(crate) lang: Lang,
    pub(crate) action: &'a str,
    /// Why the form is shown again.
    pub(crate) problem: Option<&'a str>,
}

/// The form for user name and password; `recovery` is the address for a forgotten password, `passkey` the options for
/// signing in with a passkey instead.
pub(crate) fn login(
    form: &Form<'_>,
    username: &str,
    recovery: Option<&str>,
    passkey: Option<&str>,
) -> String {
    let texts = form.lang.texts();
    let wrong = invalid(form.problem.is_some());
    let (name_focus, password_focus) =
        if username.is_empty() { (" autofocus", "") } else { ("", " autofocus") };
    let content = format!(
        "<h1 id=\"kc-page-title\">{sign_in}</h1>\n{alert}\
         <form id=\"kc-form-login\" action=\"{action}\" method=\"post\">\n\
         <label for=\"username\">{name_label}</label>\n\
         <input id=\"username\" name=\"username\" type=\"text\" value=\"{username}\" autocomplete=\"username\" \
         autocapitalize=\"none\" spellcheck=\"false\" required maxlength=\"255\"{wrong}{name_focus}>\n\
         <label for=\"password\">{password}</label>\n\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required \
         maxlength=\"256\"{wrong}{password_focus}>\n\
         <input id=\"id-hidden-input\" name=\"credentialId\" type=\"hidden\">\n\
         <button id=\"kc-login\" name=\"login\" type=\"submit\">{sign_in}</button>\n</form>{passkey}{recovery}",
        passkey = passkey_form(form, passkey, texts.passkey_sign_in),
        recovery = recovery.map_or_else(String::new, |address| {
            format!("\n<p><a href=\"{}\">{}</a></p>", escape(address), texts.forgot_password)
        }),
        sign_in = texts.sign_in,
        alert = alert(form.problem),
        action = escape(form.action),
        name_label = texts.username_or_email,
        username = escape(username),
        password = texts.password,
    );
    page(texts, Width::Narrow, texts.sign_in, &content)
}

/// The second step: a one-time code if the user has set them up, a passkey if there are options for one, or a recovery
/// code.
pub(crate) fn second_factor(form: &Form<'_>, totp: bool, passkey: Option<&str>) -> String {
    let (texts, action, wrong) = (form.lang.texts(), escape(form.action), invalid(form.problem.is_some()));
    let code = format!(
        "<form id=\"kc-otp-login-form\" action=\"{action}\" method=\"post\">\n\
         <label for=\"otp\">{label}</label>\n\
         <input id=\"otp\" name=\"otp\" type=\"text\" inputmode=\"numeric\" autocomplete=\"one-time-code\" \
         required maxlength=\"16\"{wrong} autofocus>\n\
         <button id=\"kc-login\" name=\"login\" type=\"submit\">{sign_in}</button>\n</form>\n",
        label = texts.one_time_code,
        sign_in = texts.sign_in,
    );
    let title = if totp { texts.enter_code } else { texts.second_step };
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n{alert}{code}{passkey}\n\
         <details>\n<summary>{instead}</summary>\n\
         <form id=\"kc-recovery-code-login-form\" action=\"{action}\" method=\"post\">\n\
         <label for=\"recoveryCodeInput\">{recovery}</label>\n\
         <input id=\"recoveryCodeInput\" name=\"recoveryCodeInput\" type=\"text\" autocomplete=\"off\" \
         autocapitalize=\"none\" spellcheck=\"false\" required maxlength=\"32\">\n\
         <button name=\"login\" type=\"submit\">{sign_in}</button>\n</form>\n</details>",
        alert = alert(form.problem),
        code = if totp { code } else { String::new() },
        passkey = passkey_form(form, passkey, texts.use_passkey),
        sign_in = texts.sign_in,
        instead = texts.use_recovery_code,
        recovery = texts.recovery_code,
    );
    page(texts, Width::Narrow, title, &content)
}

fn passkey_form(form: &Form<'_>, options: Option<&str>, label: &str) -> String {
    let Some(options) = options else { return String::new() };
    let content = format!("<button class=\"plain\" type=\"submit\">{label}</button>\n");
    let form_of = CeremonyForm {
        id: "webauth",
        action: form.action,
        ceremony: "get",
        options,
        answer: "assertion",
        content: &content,
        is_hidden: true,
        failed: form.lang.texts().no_passkey,
    };
    format!("\n{}", ceremony_form(&form_of))
}

/// The form to replace a password that an operator set.
pub(crate) fn new_password(form: &Form<'_>, username: &str) -> String {
    let (texts, wrong) = (form.lang.texts(), invalid(form.problem.is_some()));
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n{alert}<p>{why}</p>\n\
         <form id=\"kc-passwd-update-form\" action=\"{action}\" method=\"post\">\n\
         <input type=\"hidden\" name=\"username\" value=\"{username}\" autocomplete=\"username\">\n{fields}\
         <button type=\"submit\">{save}</button>\n</form>",
        title = texts.choose_password,
        alert = alert(form.problem),
        why = texts.choose_password_why,
        action = escape(form.action),
        username = escape(username),
        fields = new_password_fields(form.lang, wrong, " autofocus"),
        save = texts.save_password,
    );
    page(texts, Width::Narrow, texts.choose_password, &content)
}

/// The fields of a new password.
pub(super) fn new_password_fields(lang: Lang, wrong: &str, focus: &str) -> String {
    let texts = lang.texts();
    let field = |id: &str, label: &str, more: &str| {
        format!(
            "<label for=\"{id}\">{label}</label>\n<input id=\"{id}\" name=\"{id}\" type=\"password\" \
             autocomplete=\"new-password\" required maxlength=\"256\"{wrong}{more}>\n"
        )
    };
    format!(
        "{}{}<p class=\"hint\">{}</p>\n",
        field("password-new", texts.new_password, focus),
        field("password-confirm", texts.repeat_password, ""),
        texts.password_rule
    )
}

/// The confirmation page of a logout without an ID token; `fields` are sent back.
pub(crate) fn confirm_logout(lang: Lang, action: &str, fields: &[(&str, &str)]) -> String {
    let texts = lang.texts();
    let title = texts.sign_out_question;
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n<form id=\"kc-logout-confirm\" action=\"{}\" method=\"post\">\n{}\
         <button id=\"kc-logout\" name=\"confirmLogout\" type=\"submit\">{}</button>\n</form>",
        escape(action),
        hidden(fields),
        texts.sign_out,
    );
    page(texts, Width::Narrow, title, &content)
}

/// The page after a logout without a redirect; `account` is the address of the account page, which asks for a login.
pub(crate) fn logged_out(lang: Lang, account: &str) -> String {
    let texts = lang.texts();
    let title = texts.signed_out;
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n<p><a class=\"button\" href=\"{}\">{}</a></p>",
        escape(account),
        texts.sign_in_again
    );
    page(texts, Width::Narrow, title, &content)
}

/// The error page: what happened, what to do, and the request's correlation id in the logs.
pub(crate) fn error(lang: Lang, message: &str, correlation: &str) -> String {
    let texts = lang.texts();
    let title = texts.cannot_go_on;
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n\
         <div id=\"kc-error-message\"><p class=\"instruction\">{message}</p>\n\
         <p class=\"hint\">{what_to_do} <code>{correlation}</code></p></div>\n\
         <p><a href=\"/\">{to_start}</a></p>",
        message = escape(message),
        what_to_do = texts.what_to_do,
        correlation = escape(correlation),
        to_start = texts.to_start,
    );
    page(texts, Width::Narrow, title, &content)
}

#[cfg(test)]
mod tests {
    use super::super::PRODUCT;
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let nasty = "\"><script>alert('x')</script>&";
        let form = Form { lang: Lang::De, action: nasty, problem: Some(nasty) };
        for page in [
            login(&form, nasty, Some(nasty), None),
            second_factor(&form, true, None),
            new_password(&form, nasty),
            confirm_logout(Lang::En, nasty, &[(nasty, nasty)]),
            logged_out(Lang::En, nasty),
            error(Lang::En, nasty, nasty),
        ] {
            assert!(!page.contains("<script"), "{page}");
            assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
        }
        for page in [login(&form, "", None, Some(nasty)), second_factor(&form, false, Some(nasty))] {
            assert_eq!(page.matches("<script").count(), 1, "{page}");
            assert!(page.contains("<script src=\"/resources/passkey.js\" defer></script>"), "{page}");
            assert!(page.contains("data-options=\"&quot;&gt;&lt;script&gt;"), "{page}");
        }
    }

    #[test]
    fn a_field_is_invalid_only_when_it_is_and_the_focus_is_where_the_next_text_goes() {
        let form = |problem| Form { lang: Lang::En, action: "/", problem };
        let fresh = login(&form(None), "", None, None);
        assert!(!fresh.contains("aria-invalid") && !fresh.contains("input-error"), "{fresh}");
        assert_eq!(fresh.matches("autofocus").count(), 1);
        let again = login(&form(Some("wrong")), "alice", None, None);
        assert!(again.contains("aria-describedby=\"input-error\" autofocus>"), "{again}");
        assert!(again.contains(PRODUCT) && again.contains("lang=\"en\""));
    }
}
