//! The account's own pages: password, second factor, passkeys, sessions.

use time::OffsetDateTime;
use time::macros::format_description;
use uuid::Uuid;

use super::login::new_password_fields;
use super::{CeremonyForm, Lang, Width, alert, ceremony_form, escape, hidden, invalid, page, qr};

/// Name of the field that proves that a form came from an account page.
pub(crate) const PROOF_FIELD: &str = "stateChecker";

/// The content of the account page.
pub(crate) struct Account<'a> {
    pub(crate) frame: Frame<'a>,
    pub(crate) username: &'a str,
    /// Whether one-time codes are set up.
    pub(crate) totp: bool,
    pub(crate) passkeys: &'a [Passkey],
    /// Whether browsers offer passkeys at this provider's address.
    pub(crate) has_ceremonies: bool,
    /// Unused recovery codes; `None` without a second factor.
    pub(crate) codes_left: Option<i64>,
    pub(crate) sessions: &'a [Session],
    /// Message about the last change.
    pub(crate) done: Option<&'static str>,
    pub(crate) problem: Option<Problem>,
}

/// What every account page needs.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) lang: Lang,
    /// Address of the account page.
    pub(crate) base: &'a str,
    /// Query of every address, with its `?`: the language, if the request chose one.
    pub(crate) query: &'a str,
    /// Value of [`PROOF_FIELD`].
    pub(crate) proof: &'a str,
}

/// A passkey.
#[derive(Clone, Debug)]
pub(crate) struct Passkey {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) last_used_at: Option<OffsetDateTime>,
}

/// A session of a browser.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Uuid,
    pub(crate) is_this: bool,
    pub(crate) agent: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) authenticated_at: OffsetDateTime,
    /// Clients that the browser is signed in to.
    pub(crate) clients: Vec<String>,
}

/// The form that was refused, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) form: FormName,
    pub(crate) text: &'static str,
}

/// The forms that may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormName {
    Password,
    RemoveSecondFactor,
    Passkeys,
    NewCodes,
}

impl Frame<'_> {
    fn action(&self, path: &str) -> String {
        escape(&format!("{}/{path}{}", self.base, self.query))
    }

    fn form(&self, path: &str, content: &str) -> String {
        format!("<form action=\"{}\" method=\"post\">\n{}{content}</form>\n", self.action(path), self.proof())
    }

    fn proof(&self) -> String {
        hidden(&[(PROOF_FIELD, self.proof)])
    }
}

impl Account<'_> {
    fn problem(&self, form: FormName) -> Option<&'static str> {
        self.problem.filter(|problem| problem.form == form).map(|problem| problem.text)
    }
}

/// The account page.
pub(crate) fn account(account: &Account<'_>) -> String {
    let texts = account.frame.lang.texts();
    let done = account
        .done
        .map_or_else(String::new, |done| format!("<p class=\"done\" role=\"status\">{}</p>\n", escape(done)));
    let content = format!(
        "<h1>{title}</h1>\n{done}<p>{name}: <strong>{username}</strong></p>\n{password}{second}{passkeys}{codes}{sessions}",
        title = texts.account,
        name = texts.user_name,
        username = escape(account.username),
        password = password(account),
        second = second_factor(account),
        passkeys = passkeys(account),
        codes = account.codes_left.map_or_else(String::new, |left| recovery_section(account, left)),
        sessions = sessions(account),
    );
    page(texts, Width::Wide, texts.account, &content)
}

fn password(account: &Account<'_>) -> String {
    let (texts, problem) = (account.frame.lang.texts(), account.problem(FormName::Password));
    let wrong = invalid(problem.is_some());
    let fields = format!(
        "<input type=\"hidden\" name=\"username\" value=\"{username}\" autocomplete=\"username\">\n\
         <label for=\"password\">{present}</label>\n\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required \
         maxlength=\"256\"{wrong}>\n{new}<button type=\"submit\">{save}</button>\n",
        username = escape(account.username),
        present = texts.present_password,
        new = new_password_fields(account.frame.lang, wrong, ""),
        save = texts.save_password,
    );
    let form = account.frame.form("password", &fields);
    format!(
        "<section aria-labelledby=\"h-password\">\n<h2 id=\"h-password\">{}</h2>\n{}{form}</section>\n",
        texts.password,
        alert(problem)
    )
}

fn second_factor(account: &Account<'_>) -> String {
    let (texts, frame) = (account.frame.lang.texts(), &account.frame);
    let content = if account.totp {
        format!(
            "<p>{}</p>\n{}",
            texts.second_step_on,
            with_password(account, FormName::RemoveSecondFactor, "totp/remove", texts.turn_off, ""),
        )
    } else {
        format!(
            "<p>{}</p>\n<p><a class=\"button\" href=\"{}\">{}</a></p>\n",
            texts.second_step_off,
            frame.action("totp"),
            texts.set_up
        )
    };
    format!(
        "<section aria-labelledby=\"h-second\">\n<h2 id=\"h-second\">{}</h2>\n{content}</section>\n",
        texts.second_step
    )
}

fn passkeys(account: &Account<'_>) -> String {
    let (texts, frame) = (account.frame.lang.texts(), &account.frame);
    if account.passkeys.is_empty() && !account.has_ceremonies {
        return String::new();
    }
    let add = format!(
        "<p><a class=\"button\" href=\"{}\">{}</a></p>\n",
        frame.action("passkeys"),
        texts.add_passkey
    );
    let add = if account.has_ceremonies { add } else { String::new() };
    let rows: String = account.passkeys.iter().map(|passkey| passkey_row(account, passkey)).collect();
    let list = if rows.is_empty() { rows } else { format!("<ul class=\"sessions\">\n{rows}</ul>\n") };
    format!(
        "<section aria-labelledby=\"h-passkeys\">\n<h2 id=\"h-passkeys\">{}</h2>\n{}<p>{}</p>\n{list}{add}</section>\n",
        texts.passkeys,
        alert(account.problem(FormName::Passkeys)),
        texts.passkeys_why,
    )
}

fn passkey_row(account: &Account<'_>, passkey: &Passkey) -> String {
    let texts = account.frame.lang.texts();
    let (id, name) = (passkey.id.to_string(), escape(&passkey.name));
    let time = |label: &str, at: OffsetDateTime| {
        let (machine, shown) = moment(account.frame.lang, at);
        format!("{label} <time datetime=\"{machine}\">{shown}</time>")
    };
    let mut facts = vec![time(texts.added_at, passkey.created_at)];
    facts.extend(passkey.last_used_at.map(|at| time(texts.last_used_at, at)));
    let remove = with_password(account, FormName::Passkeys, "passkeys/remove", texts.remove, &id);
    format!(
        "<li><div><strong>{name}</strong><span class=\"hint\">{}</span></div>\n{remove}</li>\n",
        facts.join(" · ")
    )
}

fn recovery_section(account: &Account<'_>, left: i64) -> String {
    let texts = account.frame.lang.texts();
    format!(
        "<section aria-labelledby=\"h-codes\">\n<h2 id=\"h-codes\">{}</h2>\n<p>{} {left}</p>\n{}</section>\n",
        texts.recovery_codes,
        texts.codes_left,
        with_password(account, FormName::NewCodes, "recovery-codes", texts.new_codes, ""),
    )
}

/// Writes a form that asks for the password again; `passkey` is the id of the passkey it is about, or empty.
fn with_password(account: &Account<'_>, form: FormName, path: &str, label: &str, passkey: &str) -> String {
    let (texts, is_one) = (account.frame.lang.texts(), !passkey.is_empty());
    // A problem with a passkey's form is shown above the list.
    let problem = account.problem(form).filter(|_| !is_one);
    let about = if is_one { hidden(&[("passkey", passkey)]) } else { String::new() };
    let (id, wrong) = (format!("{}{passkey}", path.replace('/', "-")), invalid(problem.is_some()));
    let fields = format!(
        "{about}<label for=\"password-{id}\">{}</label>\n<input id=\"password-{id}\" name=\"password\" type=\"password\" \
         autocomplete=\"current-password\" required maxlength=\"256\"{wrong}>\n\
         <button class=\"plain\" type=\"submit\">{label}</button>\n",
        texts.password
    );
    let open = if problem.is_some() { " open" } else { "" };
    format!(
        "<details{open}>\n<summary>{label}</summary>\n{}{}</details>\n",
        alert(problem),
        account.frame.form(path, &fields)
    )
}

fn sessions(account: &Account<'_>) -> String {
    let (texts, frame) = (account.frame.lang.texts(), &account.frame);
    let rows: String = account.sessions.iter().map(|session| row(frame, session)).collect();
    let all = frame.form(
        "sessions/end-all",
        &format!("<button class=\"plain\" type=\"submit\">{}</button>\n", texts.end_all),
    );
    format!(
        "<section aria-labelledby=\"h-sessions\">\n<h2 id=\"h-sessions\">{}</h2>\n<ul class=\"sessions\">\n{rows}</ul>\n\
         {all}</section>\n",
        texts.sessions
    )
}

fn row(frame: &Frame<'_>, session: &Session) -> String {
    let texts = frame.lang.texts();
    let agent = session.agent.as_deref().unwrap_or(texts.unknown_browser);
    let this = if session.is_this { format!(" ({})", texts.this_session) } else { String::new() };
    let (machine, shown) = moment(frame.lang, session.authenticated_at);
    let mut facts = vec![format!("{} <time datetime=\"{machine}\">{shown}</time>", texts.signed_in_at)];
    facts.extend(session.address.as_deref().map(escape));
    facts.extend(session.clients.iter().map(|client| escape(client)));
    let id = session.id.to_string();
    let button = format!(
        "{}<button class=\"plain\" type=\"submit\" aria-label=\"{end}: {label}\">{end}</button>\n",
        hidden(&[("session", &id)]),
        end = if session.is_this { texts.sign_out } else { texts.end },
        label = escape(agent),
    );
    format!(
        "<li><div><strong>{}{this}</strong><span class=\"hint\">{}</span></div>\n{}</li>\n",
        escape(agent),
        facts.join(" · "),
        frame.form("sessions/end", &button)
    )
}

/// Formats a time in UTC, for machines and for people.
fn moment(lang: Lang, at: OffsetDateTime) -> (String, String) {
    let machine = format_description!("[year]-[month]-[day]T[hour]:[minute]Z");
    let english = format_description!("[day padding:none] [month repr:long] [year], [hour]:[minute] UTC");
    let german = format_description!("[day].[month].[year], [hour]:[minute] UTC");
    let shown = match lang {
        Lang::En => at.format(english),
        Lang::De => at.format(german),
    };
    (at.format(machine).unwrap_or_default(), shown.unwrap_or_default())
}

/// The content of the set-up page of the second factor.
pub(crate) struct SetUp<'a> {
    pub(crate) frame: Frame<'a>,
    /// `otpauth:` address of the secret.
    pub(crate) uri: &'a str,
    /// The secret as text.
    pub(crate) key: &'a str,
    /// The secret, sealed.
    pub(crate) sealed: &'a str,
    pub(crate) problem: Option<&'static str>,
}

/// The set-up page of the second factor.
pub(crate) fn set_up(shown: &SetUp<'_>) -> String {
    let texts = shown.frame.lang.texts();
    let wrong = invalid(shown.problem.is_some());
    let fields = format!(
        "{secret}<label for=\"totp\">{label}</label>\n\
         <input id=\"totp\" name=\"totp\" type=\"text\" inputmode=\"numeric\" autocomplete=\"one-time-code\" required \
         maxlength=\"16\"{wrong} autofocus>\n<button type=\"submit\">{turn_on}</button>\n",
        secret = hidden(&[("totpSecret", shown.sealed)]),
        label = texts.confirm_code,
        turn_on = texts.turn_on,
    );
    let content = format!(
        "<h1>{title}</h1>\n<section>\n<p>{scan}</p>\n{picture}<p>{key_label} <code id=\"kc-totp-secret-key\">{key}</code></p>\n\
         {alert}{form}<p><a href=\"{back}\">{cancel}</a></p>\n</section>",
        title = texts.second_step,
        scan = texts.scan,
        picture = qr::svg(shown.uri, texts.qr).unwrap_or_default(),
        key_label = texts.key,
        key = escape(shown.key),
        alert = alert(shown.problem),
        form = shown.frame.form("totp", &fields),
        back = escape(&format!("{}{}", shown.frame.base, shown.frame.query)),
        cancel = texts.cancel,
    );
    page(texts, Width::Wide, texts.second_step, &content)
}

/// The content of the page that adds a passkey.
pub(crate) struct NewPasskey<'a> {
    pub(crate) frame: Frame<'a>,
    /// Options for the authenticator, as JSON.
    pub(crate) options: &'a str,
    /// The challenge, sealed.
    pub(crate) sealed: &'a str,
    pub(crate) name: &'a str,
    pub(crate) problem: Option<&'static str>,
}

/// The page that adds a passkey.
pub(crate) fn new_passkey(shown: &NewPasskey<'_>) -> String {
    let (texts, wrong) = (shown.frame.lang.texts(), invalid(shown.problem.is_some()));
    let fields = format!(
        "{proof}{challenge}<label for=\"passkeyName\">{label}</label>\n\
         <input id=\"passkeyName\" name=\"passkeyName\" type=\"text\" value=\"{name}\" required maxlength=\"64\" \
         autocomplete=\"off\"{wrong} autofocus>\n<button type=\"submit\">{add}</button>\n",
        proof = shown.frame.proof(),
        challenge = hidden(&[("passkeyChallenge", shown.sealed)]),
        label = texts.passkey_name,
        name = escape(shown.name),
        add = texts.add_passkey,
    );
    let form = CeremonyForm {
        id: "kc-register-passkey",
        action: &format!("{}/passkeys{}", shown.frame.base, shown.frame.query),
        ceremony: "create",
        options: shown.options,
        answer: "credential",
        content: &fields,
        is_hidden: false,
        failed: texts.passkey_not_added,
    };
    let content = format!(
        "<h1>{title}</h1>\n<section>\n<p>{why}</p>\n<noscript><p class=\"alert\">{script}</p></noscript>\n{alert}{form}\n\
         <p><a href=\"{back}\">{cancel}</a></p>\n</section>",
        title = texts.add_passkey,
        why = texts.passkeys_why,
        script = texts.passkey_script,
        alert = alert(shown.problem),
        form = ceremony_form(&form),
        back = escape(&format!("{}{}", shown.frame.base, shown.frame.query)),
        cancel = texts.cancel,
    );
    page(texts, Width::Wide, texts.add_passkey, &content)
}

/// The recovery codes, shown once.
pub(crate) fn recovery_codes(frame: &Frame<'_>, codes: &[String]) -> String {
    let texts = frame.lang.texts();
    let rows: Vec<String> = codes.iter().map(|code| format!("<li>{}</li>\n", escape(code))).collect();
    let content = format!(
        "<h1>{title}</h1>\n<section>\n<p>{why}</p>\n<ol class=\"codes\">\n{rows}</ol>\n\
         <p><a class=\"button\" href=\"{back}\">{to_account}</a></p>\n</section>",
        title = texts.recovery_codes,
        why = texts.recovery_why,
        rows = rows.concat(),
        back = escape(&format!("{}{}", frame.base, frame.query)),
        to_account = texts.to_account,
    );
    page(texts, Width::Wide, texts.recovery_codes, &content)
}
