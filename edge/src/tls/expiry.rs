//! Reads a certificate's expiry, for the operator's alert, and its names, for its tickets: the two DER fields that the
//! gateway parses itself. Pure. It makes no decisions: rustls decides whether a certificate can be used.

use time::{Date, Month, Time};

const SEQUENCE: u8 = 0x30;
/// `[0]`, the version, if present.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[3]`, the extensions, if present.
const EXTENSIONS: u8 = 0xa3;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// 2.5.29.17.
const SUBJECT_ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

/// Returns `notAfter` in seconds since 1970; `None` if the bytes are not a certificate.
pub(crate) fn not_after(certificate: &[u8]) -> Option<i64> {
    // Serial number, algorithm, issuer.
    let (validity, _) = sequence(fields_after(certificate, 3)?)?;
    let (_, _, end) = element(validity)?;
    let (tag, text, _) = element(end)?;
    seconds(tag, std::str::from_utf8(text).ok()?)
}

/// Returns the raw extension with the names; `None` if there is none, or if the bytes are not a certificate.
pub(crate) fn names(certificate: &[u8]) -> Option<&[u8]> {
    // Those, validity, subject and key.
    let mut fields = fields_after(certificate, 6)?;
    loop {
        let (tag, content, rest) = element(fields)?;
        if tag == EXTENSIONS {
            let (mut extensions, _) = sequence(content)?;
            loop {
                let (extension, rest) = sequence(extensions)?;
                let (tag, identifier, value) = element(extension)?;
                if tag == OBJECT_IDENTIFIER && identifier == SUBJECT_ALTERNATIVE_NAME {
                    return Some(value);
                }
                extensions = rest;
            }
        }
        fields = rest;
    }
}

/// Returns what follows the version and `count` more fields.
fn fields_after(certificate: &[u8], count: usize) -> Option<&[u8]> {
    let (certificate, _) = sequence(certificate)?;
    let (signed, _) = sequence(certificate)?;
    let (tag, _, after_first) = element(signed)?;
    let fields = if tag == VERSION { after_first } else { signed };
    (0..count).try_fold(fields, |fields, _| element(fields).map(|(_, _, rest)| rest))
}

fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == SEQUENCE).then_some((content, rest))
}

/// Splits off an element: tag, content, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first.checked_sub(0x80) {
        None => (usize::from(*first), rest),
        Some(count @ 1..=4) => {
            let (digits, rest) = rest.split_at_checked(usize::from(count))?;
            (digits.iter().fold(0_usize, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
        Some(_) => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, as certificates must write it.
fn seconds(tag: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            // RFC 5280: two digits mean 1950 to 2049.
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let pair = |position: usize| rest.get(position..position + 2)?.parse::<u8>().ok();
    let month = Month::try_from(pair(0)?).ok()?;
    let date = Date::from_calendar_date(year, month, pair(2)?).ok()?;
    let time = Time::from_hms(pair(4)?, pair(6)?, pair(8)?).ok()?;
    (rest.len() == 10).then(|| date.with_time(time).assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn ending(year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        params.not_after = date_time_ymd(year, 3, 1);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_notations() {
        // 2049 is the last year written with two digits.
        for (year, expected) in [(2030, 1_898_553_600), (2049, 2_498_169_600), (2100, 4_107_542_400)] {
            assert_eq!(not_after(&ending(year)), Some(expected), "{year}");
        }
    }

    #[test]
    fn the_names_of_a_certificate_are_told_apart_whatever_else_it_holds() {
        let made = |names: &[&str], year| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).expect("parameters");
            params.not_after = date_time_ymd(year, 3, 1);
            let key = KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("a certificate").der().to_vec()
        };
        let one = made(&["a.example"], 2030);
        assert!(names(&one).is_some());
        assert_eq!(names(&one), names(&made(&["a.example"], 2031)), "renewed");
        for others in [&["b.example"][..], &["a.example", "b.example"], &["127.0.0.1"]] {
            assert_ne!(names(&one), names(&made(others, 2030)), "{others:?}");
        }
        assert_eq!(names(&made(&[], 2030)), None);
    }

    #[test]
    fn what_is_no_whole_certificate_has_no_end_and_no_names() {
        let whole = ending(2030);
        for length in 0..whole.len() {
            let part = whole.get(..length).expect("a part");
            assert_eq!((not_after(part), names(part)), (None, None), "{length}");
        }
        for (tag, text) in [
            (UTC_TIME, "300301000000"),
            (UTC_TIME, "301301000000Z"),
            (UTC_TIME, "3003010000001Z"),
            (0x16, "300301000000Z"),
        ] {
            assert_eq!(seconds(tag, text), None, "{text}");
        }
    }
}
