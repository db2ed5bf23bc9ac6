//! The list in a `Forwarded` header (RFC 7239): elements between commas, pairs between semicolons, values that may be
//! quoted. Pure.

use crate::config::OwnHosts;
use crate::pipeline::guard::is_host;

/// Returns the list without the pairs that claim a host other than the platform's own. `None` if nothing is left, or if
/// a quoted value is unterminated, which parsers read differently.
pub(crate) fn without_other_hosts(list: &str, hosts: &OwnHosts) -> Option<String> {
    let elements: Vec<String> = split(list, ',')?
        .into_iter()
        .filter_map(|element| {
            let pairs = split(element, ';')?.into_iter().map(str::trim);
            let pairs: Vec<&str> = pairs.filter(|pair| !pair.is_empty() && fits(pair, hosts)).collect();
            Some(pairs.join(";")).filter(|element| !element.is_empty())
        })
        .collect();
    Some(elements.join(", ")).filter(|list| !list.is_empty())
}

fn fits(pair: &str, hosts: &OwnHosts) -> bool {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let value = value.trim();
    let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    !name.trim().eq_ignore_ascii_case("host") || (is_host(bare) && hosts.own(bare))
}

/// Splits at separators outside quotes; `None` if a quote is unterminated.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(|next: char| {
        if quoted && !escaped && next == '\\' {
            escaped = true;
            return false;
        }
        if next == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = false;
        next == separator && !quoted
    });
    let parts = parts.collect();
    (!quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_other_hosts_are_left_out_whatever_stands_around_them() {
        let hosts = OwnHosts::of_domain("platform.example");
        for (list, left) in [
            ("for=1;host=platform.example", Some("for=1;host=platform.example")),
            (
                "for=1;HOST=\"platform.example:443\" , for=2",
                Some("for=1;HOST=\"platform.example:443\", for=2"),
            ),
            ("host=evil.example", None),
            ("for=\"a\\\";host=x\";host=evil.example;proto=https", Some("for=\"a\\\";host=x\";proto=https")),
            ("for=1, host = evil.example ;by=2", Some("for=1, by=2")),
            ("host", None),
            ("host=platform.example:+443", None),
            ("host=\"evil.example", None),
            ("for=\"\\", None),
            (" , ;", None),
        ] {
            assert_eq!(without_other_hosts(list, &hosts).as_deref(), left, "{list}");
        }
    }
}
