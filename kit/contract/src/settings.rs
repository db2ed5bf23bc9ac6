//! Configuration: environment variables read once into [`Settings`], declared as [`Variable`]s next to the code that
//! uses them, and parsed through a [`Reader`] that reports every bad value, not only the first.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A file or folder.
    Path,
    /// An absolute `http://` or `https://` address.
    Url,
    /// `IP:port`; empty disables the feature.
    Address,
    /// `250ms`, `2s`, `10m`, `1h`.
    Duration,
    /// `64KiB`, `8MiB`, or bytes.
    Size,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Flag,
    /// Comma-separated texts; spaces around them are ignored.
    List,
    /// A text that is never printed.
    Secret,
}

impl Kind {
    /// The unit or form, for `platform config`.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Path => "path",
            Self::Url => "URL",
            Self::Address => "IP:port",
            Self::Duration => "duration (250ms, 2s, 10m)",
            Self::Size => "size (64KiB, 8MiB)",
            Self::Integer => "integer",
            Self::Flag => "true or false",
            Self::List => "comma-separated list",
            Self::Secret => "secret",
        }
    }
}

/// One environment variable. A name ending in `<ID>` or holding `<KEY>` stands for a family of variables.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// `PLATFORM_…` or `IDP_…`.
    pub name: &'static str,
    /// The default as text; `None` if there is none.
    pub default: Option<&'static str>,
    /// Form of the value.
    pub kind: Kind,
    /// One sentence that describes the variable.
    pub meaning: &'static str,
}

impl Variable {
    /// Declares a variable.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: Option<&'static str>,
        meaning: &'static str,
    ) -> Self {
        Self { name, default, kind, meaning }
    }
}

/// The variables of one process, read once. Cheap to clone with changes (`up` sets those of the services that it runs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Makes settings of the given variables.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// The raw text of a variable; empty counts as absent.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether the variable is set at all, even if empty.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The same settings with one variable set.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Sets a variable unless it is set already.
    pub fn default_to(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.entry(name.into()).or_insert_with(|| value.into());
    }

    /// Every variable, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A reader that collects the problems of these settings.
    #[must_use]
    pub const fn reader(&self) -> Reader<'_> {
        Reader { settings: self, problems: Vec::new() }
    }
}

/// A bad value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable.
    pub name: String,
    /// A sentence that names the bad value and the valid form.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

/// Every problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// Reads variables and collects problems; a bad value yields its default, so that reading continues.
#[derive(Debug)]
pub struct Reader<'a> {
    settings: &'a Settings,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The settings being read.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        self.settings
    }

    /// The value, if there were no problems.
    ///
    /// # Errors
    /// All problems recorded so far.
    pub fn finish<T>(self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(value) } else { Err(Problems(self.problems)) }
    }

    /// Records a problem with a variable's value, once however often the variable is read.
    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        let problem = Problem { name: name.to_owned(), message: message.into() };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// A text: the value, else the default, else empty.
    pub fn text(&mut self, variable: &Variable) -> String {
        self.value(variable).unwrap_or_default().to_owned()
    }

    /// An optional text.
    pub fn optional(&mut self, variable: &Variable) -> Option<String> {
        self.value(variable).map(ToOwned::to_owned)
    }

    /// A required text.
    pub fn required(&mut self, variable: &Variable) -> String {
        let found = self.optional(variable);
        found.unwrap_or_else(|| {
            self.refuse(variable.name, format!("is required ({})", variable.meaning));
            String::new()
        })
    }

    /// A duration.
    pub fn duration(&mut self, variable: &Variable) -> Duration {
        self.parsed(variable, parse_duration, "a duration such as 250ms, 2s or 10m").unwrap_or_default()
    }

    /// A duration of at least `least`.
    pub fn duration_from(&mut self, variable: &Variable, least: &str) -> Duration {
        let min = parse_duration(least).unwrap_or_default();
        let parse = |text: &str| parse_duration(text).filter(|duration| *duration >= min);
        let right = format!("a duration such as 250ms, 2s or 10m, of at least {least}");
        self.parsed(variable, parse, &right).unwrap_or(min)
    }

    /// A size in bytes, of at least `least`.
    pub fn size_from(&mut self, variable: &Variable, least: &str) -> usize {
        self.optional_size_from(variable, least).or_else(|| parse_size(least)).unwrap_or_default()
    }

    /// A size in bytes.
    pub fn size(&mut self, variable: &Variable) -> usize {
        self.parsed(variable, parse_size, "a size such as 64KiB or 8MiB").unwrap_or_default()
    }

    /// A size in bytes, of at least `least`; `None` for no limit.
    pub fn optional_size_from(&mut self, variable: &Variable, least: &str) -> Option<usize> {
        let min = parse_size(least).unwrap_or_default();
        let parse = |text: &str| parse_size(text).filter(|size| *size >= min);
        self.parsed(variable, parse, &format!("a size such as 64KiB or 8MiB, of at least {least}"))
    }

    /// A whole number of at least `min`.
    pub fn integer(&mut self, variable: &Variable, min: u64) -> u64 {
        let parse = |text: &str| text.parse::<u64>().ok().filter(|number| *number >= min);
        self.parsed(variable, parse, &format!("a whole number of at least {min}")).unwrap_or(min)
    }

    /// `true` or `false`.
    pub fn flag(&mut self, variable: &Variable) -> bool {
        self.parsed(variable, |text| text.parse::<bool>().ok(), "true or false").unwrap_or_default()
    }

    /// A comma-separated list; empty items are dropped.
    pub fn list(&mut self, variable: &Variable) -> Vec<String> {
        split_list(self.value(variable).unwrap_or_default())
    }

    /// A value with a parser of its own.
    pub fn parsed<T>(
        &mut self,
        variable: &Variable,
        parse: impl Fn(&str) -> Option<T>,
        right: &str,
    ) -> Option<T> {
        let text = self.settings.raw(variable.name).or(variable.default)?;
        if let Some(value) = parse(text) {
            return Some(value);
        }
        let shown = if variable.kind == Kind::Secret { "the value" } else { text };
        self.refuse(variable.name, format!("\"{shown}\" is not {right}"));
        variable.default.and_then(parse)
    }

    fn value(&self, variable: &Variable) -> Option<&str> {
        self.settings.raw(variable.name).or(variable.default).filter(|text| !text.is_empty())
    }
}

/// Splits a comma-separated list; spaces around items and empty items are dropped.
#[must_use]
pub fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(ToOwned::to_owned).collect()
}

/// `250ms`, `2s`, `10m`, `1h`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3_600)?)),
        _ => None,
    }
}

/// `512`, `512B`, `64KiB`, `8MiB`, `1GiB`.
#[must_use]
pub fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text)?;
    let number = usize::try_from(number).ok()?;
    let scale: usize = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(scale)
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit))
}

/// The known name closest to a misspelt one, by edit distance.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|candidate| edit_distance(name, candidate))
}

/// How many characters must be added, removed or changed to make one name of the other.
#[must_use]
pub fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<u8> = right.bytes().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, byte) in left.bytes().enumerate() {
        let mut diagonal = index;
        let mut before = index + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let change = diagonal + usize::from(byte != *other);
            diagonal = *cell;
            *cell = change.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Variable = Variable::new("PLATFORM_WAIT", Kind::Duration, Some("2s"), "how long");
    const CAP: Variable = Variable::new("PLATFORM_CAP", Kind::Size, Some("1MiB"), "how much");

    #[test]
    fn durations_and_sizes() {
        for (text, millis) in [("250ms", 250), ("2s", 2_000), ("10m", 600_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "2", "s", "2 s", "-1s", "2d", "1.5s", "99999999999999999999s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        for (text, bytes) in
            [("512", 512), ("1B", 1), ("64KiB", 65_536), ("8MiB", 8_388_608), ("1GiB", 1 << 30)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in ["", "KiB", "1kb", "1 MiB", "99999999999GiB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_bad_value_is_reported_with_name_value_and_what_is_right() {
        let settings = Settings::default().with("PLATFORM_WAIT", "soon").with("PLATFORM_CAP", "much");
        let mut reader = settings.reader();
        assert_eq!(reader.duration(&WAIT), Duration::from_secs(2));
        assert_eq!(reader.size(&CAP), 1 << 20);
        assert_eq!(reader.size(&CAP), 1 << 20, "read again, told once");
        let problems = reader.finish(()).expect_err("two problems").to_string();
        assert_eq!(
            problems,
            "PLATFORM_WAIT: \"soon\" is not a duration such as 250ms, 2s or 10m\n\
             PLATFORM_CAP: \"much\" is not a size such as 64KiB or 8MiB"
        );
    }

    #[test]
    fn the_nearest_name_is_the_likely_one() {
        let known = ["PLATFORM_DOMAIN", "PLATFORM_REALM", "PLATFORM_DATA_DIR"];
        assert_eq!(nearest("PLATFORM_DOMIAN", known.into_iter()), Some("PLATFORM_DOMAIN"));
    }
}
