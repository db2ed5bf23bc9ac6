//! The pages for a forgotten password: requesting an e-mail, and choosing a password with its link.

use super::login::{Form, new_password_fields};
use super::{Lang, Width, alert, escape, hidden, invalid, page};

/// The form for a forgotten password.
pub(crate) fn ask(form: &Form<'_>) -> String {
    let texts = form.lang.texts();
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n{alert}<p>{why}</p>\n\
         <form id=\"kc-reset-password-form\" action=\"{action}\" method=\"post\">\n\
         <label for=\"username\">{label}</label>\n\
         <input id=\"username\" name=\"username\" type=\"text\" autocomplete=\"username\" autocapitalize=\"none\" \
         spellcheck=\"false\" required maxlength=\"255\"{wrong} autofocus>\n\
         <button type=\"submit\">{send}</button>\n</form>",
        title = texts.forgot_password,
        alert = alert(form.problem),
        why = texts.forgot_why,
        action = escape(form.action),
        label = texts.username_or_email,
        wrong = invalid(form.problem.is_some()),
        send = texts.send_letter,
    );
    page(texts, Width::Narrow, texts.forgot_password, &content)
}

/// The page after the form, the same whether or not there is such an account.
pub(crate) fn asked(lang: Lang) -> String {
    let texts = lang.texts();
    let content = format!(
        "<h1 id=\"kc-page-title\">{}</h1>\n<p role=\"status\">{}</p>\n<p><a href=\"/\">{}</a></p>",
        texts.letter_asked, texts.letter_asked_what, texts.to_start
    );
    page(texts, Width::Narrow, texts.letter_asked, &content)
}

/// The form for a new password, behind the link with this key.
pub(crate) fn choose(form: &Form<'_>, username: &str, key: &str) -> String {
    let (texts, wrong) = (form.lang.texts(), invalid(form.problem.is_some()));
    let content = format!(
        "<h1 id=\"kc-page-title\">{title}</h1>\n{alert}<p>{for_whom} <strong>{username}</strong></p>\n\
         <form id=\"kc-passwd-update-form\" action=\"{action}\" method=\"post\">\n\
         <input type=\"hidden\" name=\"username\" value=\"{username}\" autocomplete=\"username\">\n{key}{fields}\
         <button type=\"submit\">{save}</button>\n</form>",
        title = texts.choose_password,
        alert = alert(form.problem),
        for_whom = texts.choose_for,
        username = escape(username),
        action = escape(form.action),
        key = hidden(&[("key", key)]),
        fields = new_password_fields(form.lang, wrong, " autofocus"),
        save = texts.save_password,
    );
    page(texts, Width::Narrow, texts.choose_password, &content)
}

/// The page behind a link that is no longer valid; `ask` is the address of the form for a forgotten password.
pub(crate) fn dead(lang: Lang, ask: Option<&str>) -> String {
    let texts = lang.texts();
    let ask = ask.map_or_else(String::new, |address| {
        let (address, label) = (escape(address), texts.forgot_password);
        format!("\n<p><a class=\"button\" href=\"{address}\">{label}</a></p>")
    });
    let content = format!(
        "<h1 id=\"kc-page-title\">{}</h1>\n\
         <div id=\"kc-error-message\"><p class=\"instruction\">{}</p></div>{ask}",
        texts.cannot_go_on, texts.dead_link
    );
    page(texts, Width::Narrow, texts.cannot_go_on, &content)
}

/// The page after the password was saved; `account` is the address of the account page, which asks for a login.
pub(crate) fn saved(lang: Lang, account: &str) -> String {
    let texts = lang.texts();
    let content = format!(
        "<h1 id=\"kc-page-title\">{}</h1>\n<p role=\"status\">{}</p>\n<p><a class=\"button\" href=\"{}\">{}</a></p>",
        texts.password_saved,
        texts.password_saved_what,
        escape(account),
        texts.sign_in
    );
    page(texts, Width::Narrow, texts.password_saved, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let nasty = "\"><script>alert('x')</script>&";
        let form = Form { lang: Lang::De, action: nasty, problem: Some(nasty) };
        for page in
            [ask(&form), choose(&form, nasty, nasty), dead(Lang::De, Some(nasty)), saved(Lang::De, nasty)]
        {
            assert!(!page.contains("<script"), "{page}");
        }
        assert!(asked(Lang::De).contains("lang=\"de\"") && saved(Lang::En, "/").contains("lang=\"en\""));
    }
}
