//! The texts of the e-mails. Pure.

use super::Kind;
use crate::pages::Lang;

/// Subject and body of an e-mail.
pub(super) struct Letter {
    pub(super) subject: &'static str,
    pub(super) body: String,
}

/// Writes the e-mail with this link to the owner of an account.
pub(super) fn letter(kind: Kind, lang: Lang, username: &str, link: &str) -> Letter {
    let (subject, body) = match (kind, lang) {
        (Kind::Reset, Lang::En) => (
            "Platform: choose a new password",
            format!(
                "Somebody, probably you, asked for a new password for the account {username}.\n\n\
                 Choose it within 30 minutes:\n\n{link}\n\n\
                 If it was not you, ignore this message. Nothing has changed.\n"
            ),
        ),
        (Kind::Reset, Lang::De) => (
            "Platform: neues Passwort wählen",
            format!(
                "Jemand, vermutlich Sie, hat für das Konto {username} ein neues Passwort angefordert.\n\n\
                 Wählen Sie es innerhalb von 30 Minuten:\n\n{link}\n\n\
                 Wenn Sie das nicht waren, können Sie diese Nachricht ignorieren. Es hat sich nichts geändert.\n"
            ),
        ),
        (Kind::Invitation, Lang::En) => (
            "Platform: your account",
            format!(
                "An account is ready for you. Your user name is {username}.\n\n\
                 Choose your password within 3 days:\n\n{link}\n"
            ),
        ),
        (Kind::Invitation, Lang::De) => (
            "Platform: Ihr Konto",
            format!(
                "Für Sie wurde ein Konto eingerichtet. Ihr Benutzername ist {username}.\n\n\
                 Wählen Sie Ihr Passwort innerhalb von 3 Tagen:\n\n{link}\n"
            ),
        ),
    };
    Letter { subject, body }
}
