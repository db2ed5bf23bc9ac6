//! Subject lines.

use email_encoding::headers::rfc2047;
use email_encoding::headers::writer::EmailWriter;
use lettre::message::header::{HeaderName, HeaderValue};

const NAME: &str = "Subject";
/// What an encoded-word of RFC 2047 begins with.
const ENCODED: &str = "=?";

/// The `Subject` header that readers show as this text. lettre encodes only words outside of ASCII; a text that contains
/// what a reader would take for an encoded-word is encoded as a whole, so that the reader decodes it once.
#[must_use]
pub fn subject(text: &str) -> HeaderValue {
    let name = HeaderName::new_from_ascii_str(NAME);
    if text.contains(ENCODED)
        && let Some(encoded) = encode(text)
    {
        return HeaderValue::dangerous_new_pre_encoded(name, text.to_owned(), encoded);
    }
    HeaderValue::new(name, text.to_owned())
}

/// Encodes and folds a text. Writing to a string does not fail.
fn encode(text: &str) -> Option<String> {
    let mut encoded = String::new();
    let mut writer = EmailWriter::new(&mut encoded, NAME.len() + ": ".len(), 0, false);
    rfc2047::encode(text, &mut writer).ok()?;
    drop(writer);
    Some(encoded)
}

#[cfg(test)]
mod tests {
    use lettre::message::header::Headers;

    use super::*;

    fn sent(text: &str) -> String {
        let mut headers = Headers::new();
        headers.insert_raw(subject(text));
        headers.to_string()
    }

    #[test]
    fn a_text_is_sent_as_it_is_unless_a_reader_would_take_it_for_encoded() {
        for plain in ["", "Release 1.4", "Is 1 = 1?", "a = ?b", "?=", "= ?utf-8?q?a?="] {
            assert_eq!(sent(plain), format!("Subject: {plain}\r\n"));
        }
        assert_eq!(sent("=?utf-8?q?Re=3A?="), "Subject: =?utf-8?b?PT91dGYtOD9xP1JlPTNBPz0=?=\r\n");
        assert_eq!(sent("a =?x"), "Subject: =?utf-8?b?YSA9P3g=?=\r\n");
        assert_eq!(sent("Änderung"), "Subject: =?utf-8?b?w4RuZGVydW5n?=\r\n", "control");
    }

    #[test]
    fn a_long_text_is_folded_and_no_line_of_it_can_begin_a_header() {
        let text = format!("=?{}", "Grüße \r\nBcc: a@example.com ".repeat(8));
        let sent = sent(&text);
        let lines: Vec<&str> = sent.split("\r\n").collect();
        assert!(lines.len() > 3 && lines.iter().all(|line| line.len() <= 78), "{sent}");
        let encoded = |line: &&str| line.starts_with(" =?utf-8?b?") && line.ends_with("?=");
        assert!(lines[1..lines.len() - 1].iter().all(encoded), "{sent}");
    }
}
