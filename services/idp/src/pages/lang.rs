//! The language of a page: `ui_locales` of the request (OpenID Connect Core, section 3.1.2.1), else the browser's
//! preference, else English. Pure.

use http::HeaderMap;
use http::header::ACCEPT_LANGUAGE;

use super::texts::{DE, EN, Texts};

/// Longest `ui_locales`, in bytes.
pub(crate) const MAX_LOCALES_BYTES: usize = 64;

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lang {
    En,
    De,
}

impl Lang {
    /// The first known language of `ui_locales`, else the most preferred one of `Accept-Language`.
    pub(crate) fn of(ui_locales: Option<&str>, headers: &HeaderMap) -> Self {
        let asked = ui_locales.unwrap_or_default().split_ascii_whitespace().find_map(Self::parse);
        asked.or_else(|| Self::accepted(headers)).unwrap_or(Self::En)
    }

    /// The texts in this language.
    pub(crate) const fn texts(self) -> &'static Texts {
        match self {
            Self::En => &EN,
            Self::De => &DE,
        }
    }

    fn accepted(headers: &HeaderMap) -> Option<Self> {
        let line = headers.get(ACCEPT_LANGUAGE)?.to_str().ok()?;
        let wanted = line.split(',').filter_map(|range| {
            let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
            let weight: f32 = weight.trim().strip_prefix("q=")?.parse().ok()?;
            (weight > 0.0).then_some((Self::parse(tag.trim())?, weight))
        });
        let best = wanted.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(lang, _)| lang)
    }

    fn parse(tag: &str) -> Option<Self> {
        match tag.split('-').next()?.to_ascii_lowercase().as_str() {
            "en" => Some(Self::En),
            "de" => Some(Self::De),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_request_chooses_then_the_browser_then_english() {
        for (ui_locales, accepted, expect) in [
            (None, "", Lang::En),
            (None, "de", Lang::De),
            (None, "de-AT,en;q=0.5", Lang::De),
            (None, "en;q=0.5, de;q=0.9", Lang::De),
            (None, "fr, de;q=0.3", Lang::De),
            (None, "de;q=0, en", Lang::En),
            (None, "de;q=x", Lang::En),
            (None, "*", Lang::En),
            (Some("fr de-CH en"), "en", Lang::De),
            (Some("EN"), "de", Lang::En),
            (Some("fr"), "de", Lang::De),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, HeaderValue::from_static(accepted))]);
            assert_eq!(Lang::of(ui_locales, &headers), expect, "{ui_locales:?} {accepted}");
        }
        assert_eq!(Lang::of(None, &HeaderMap::new()), Lang::En);
    }
}
