//! One line of the text exposition format 0.0.4, parsed strictly and written back. Pure: independent of families,
//! services and I/O. Anything the format does not allow is a [`Fault`], never a guess.

use std::fmt;

use memchr::memchr2;
use smallvec::SmallVec;

/// The longest line, without its end; useful label values are far shorter.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;
/// Labels per series; readable series have fewer than ten.
pub(super) const MAX_LABELS: usize = 64;
/// The longest name of a family or a label.
pub(super) const MAX_NAME_BYTES: usize = 200;

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// An empty line, or a comment.
    Nothing,
    /// `# HELP`, with its text still escaped.
    Help { name: &'a str, text: &'a str },
    /// `# TYPE`.
    Type { name: &'a str, kind: Kind },
    /// A series and its value.
    Sample(Sample<'a>),
}

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

/// Names and escaped values. Inline, so that seventy thousand lines need no allocation for them.
pub(super) type Labels<'a> = SmallVec<[(&'a str, &'a str); 5]>;

/// One sample. Label values stay escaped, and number and time stay as written.
#[derive(Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) labels: Labels<'a>,
    pub(super) value: &'a str,
    pub(super) timestamp: Option<&'a str>,
}

/// The fault of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("a name is malformed")]
    Name,
    #[error("an unknown type")]
    Type,
    #[error("a label is malformed")]
    Label,
    #[error("a label occurs twice in one series")]
    LabelTwice,
    #[error("an escape is unknown")]
    Escape,
    #[error("a value is not a number")]
    Value,
    #[error("a timestamp is not an integer")]
    Timestamp,
    #[error("a HELP or TYPE comment without a name")]
    Comment,
    #[error("a line is not UTF-8")]
    Encoding,
    #[error("the last line has no line feed")]
    Unended,
    #[error("a line, a name or the number of labels exceeds its limit")]
    TooLong,
    #[error("there are too many series")]
    TooManySeries,
    #[error("a family has two HELP or TYPE lines, or one after its samples")]
    Header,
    #[error("the samples of a family are not contiguous")]
    Scattered,
    #[error("two families share a sample name")]
    Overlap,
    #[error("a series occurs twice")]
    SeriesTwice,
    #[error("a sample does not fit its family's type")]
    Misfit,
    #[error("a family belongs to the gateway")]
    Reserved,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }

    fn of(word: &str) -> Option<Self> {
        let all = [Self::Counter, Self::Gauge, Self::Histogram, Self::Summary, Self::Untyped];
        all.into_iter().find(|kind| kind.word() == word)
    }

    /// The suffixes that a sample's name may add to the family's name.
    pub(super) const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter | Self::Gauge | Self::Untyped => &[""],
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Summary => &["", "_sum", "_count"],
        }
    }
}

impl Sample<'_> {
    /// Writes the line without its line feed, with one more label after its own. Piece by piece: for seventy thousand
    /// lines `fmt` would take a tenth of a scrape's time.
    pub(super) fn write(&self, added: Option<(&str, &str)>, out: &mut impl fmt::Write) -> fmt::Result {
        out.write_str(self.name)?;
        let mut before = "{";
        for (name, value) in self.labels.iter().copied().chain(added) {
            for piece in [before, name, "=\"", value] {
                out.write_str(piece)?;
            }
            before = "\",";
        }
        out.write_str(if before == "{" { " " } else { "\"} " })?;
        out.write_str(self.value)?;
        if let Some(timestamp) = self.timestamp {
            out.write_str(" ")?;
            out.write_str(timestamp)?;
        }
        Ok(())
    }
}

/// Parses one line without its line feed.
pub(super) fn read(line: &str) -> Result<Line<'_>, Fault> {
    if line.len() > MAX_LINE_BYTES {
        return Err(Fault::TooLong);
    }
    let line = skip_blanks(line);
    match line.strip_prefix('#') {
        Some(comment) => read_comment(comment),
        None if line.is_empty() => Ok(Line::Nothing),
        None => read_sample(line).map(Line::Sample),
    }
}

fn read_comment(comment: &str) -> Result<Line<'_>, Fault> {
    let (word, rest) = token(comment);
    if !matches!(word, "HELP" | "TYPE") {
        return Ok(Line::Nothing);
    }
    if rest.is_empty() {
        return Err(Fault::Comment);
    }
    let (name, rest) = name(rest, metric_byte)?;
    if !rest.is_empty() && !rest.starts_with(BLANKS) {
        return Err(Fault::Name);
    }
    let rest = skip_blanks(rest);
    if word == "HELP" {
        escapes(rest, "\\n")?;
        return Ok(Line::Help { name, text: rest });
    }
    let kind = Kind::of(rest.trim_end_matches(BLANKS)).ok_or(Fault::Type)?;
    Ok(Line::Type { name, kind })
}

fn read_sample(line: &str) -> Result<Sample<'_>, Fault> {
    let (name, rest) = name(line, metric_byte)?;
    let after_name = skip_blanks(rest);
    let (labels, rest) = match after_name.strip_prefix('{') {
        Some(rest) => read_labels(rest)?,
        None if after_name.len() < rest.len() => (Labels::new(), after_name),
        None => return Err(Fault::Name),
    };
    let (value, rest) = token(rest);
    number(value).ok_or(Fault::Value)?;
    let (timestamp, rest) = token(rest);
    let timestamp = (!timestamp.is_empty()).then_some(timestamp);
    let whole = timestamp.is_none_or(|text| text.parse::<i64>().is_ok()) && rest.is_empty();
    if whole { Ok(Sample { name, labels, value, timestamp }) } else { Err(Fault::Timestamp) }
}

/// Parses the labels up to the closing brace; returns the rest of the line, too.
fn read_labels(text: &str) -> Result<(Labels<'_>, &str), Fault> {
    let mut labels = Labels::new();
    let mut rest = skip_blanks(text);
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, skip_blanks(rest)));
        }
        let (name, after_name) = name(rest, label_byte)?;
        let quoted = skip_blanks(after_name).strip_prefix('=').map(skip_blanks).ok_or(Fault::Label)?;
        let (value, after_value) = quoted_value(quoted.strip_prefix('"').ok_or(Fault::Label)?)?;
        if name == "__name__" {
            return Err(Fault::Label);
        }
        if labels.iter().any(|(known, _)| *known == name) {
            return Err(Fault::LabelTwice);
        }
        if labels.len() == MAX_LABELS {
            return Err(Fault::TooLong);
        }
        labels.push((name, value));
        rest = skip_blanks(after_value);
        rest = match rest.strip_prefix(',') {
            Some(next) => skip_blanks(next),
            None if rest.starts_with('}') => rest,
            None => return Err(Fault::Label),
        };
    }
}

/// Parses an escaped value up to its closing quote; returns the rest, too.
fn quoted_value(text: &str) -> Result<(&str, &str), Fault> {
    let mut begin = 0;
    loop {
        let rest = text.as_bytes().get(begin..).ok_or(Fault::Label)?;
        let end = begin + memchr2(b'"', b'\\', rest).ok_or(Fault::Label)?;
        let (value, after) = text.split_at_checked(end).ok_or(Fault::Label)?;
        if let Some(after) = after.strip_prefix('"') {
            if begin > 0 {
                escapes(value, "\\n\"")?;
            }
            return Ok((value, after));
        }
        // After the backslash and the character it escapes.
        begin = end + 2;
    }
}

/// Checks that one of `known` follows every backslash.
fn escapes(text: &str, known: &str) -> Result<(), Fault> {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' && !letters.next().is_some_and(|next| known.contains(next)) {
            return Err(Fault::Escape);
        }
    }
    Ok(())
}

/// Parses a number as Go's `ParseFloat` does, which the format prescribes: including `NaN` and infinities, without
/// hexadecimal and underscores.
pub(super) fn number(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let bare = text.trim_start_matches(['+', '-']);
    let in_words = bare.starts_with(['i', 'I', 'n', 'N']);
    // A number that is too large is out of range, not infinite; NaN has no sign.
    let refused = (value.is_infinite() && !in_words) || (value.is_nan() && bare.len() < text.len());
    (!refused).then_some(value)
}

fn name(text: &str, allowed: impl Fn(u8) -> bool) -> Result<(&str, &str), Fault> {
    let length = text.bytes().take_while(|byte| allowed(*byte)).count();
    let (name, rest) = text.split_at_checked(length).ok_or(Fault::Name)?;
    match name.bytes().next() {
        Some(first) if !first.is_ascii_digit() && length <= MAX_NAME_BYTES => Ok((name, rest)),
        Some(first) if !first.is_ascii_digit() => Err(Fault::TooLong),
        _ => Err(Fault::Name),
    }
}

const fn label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

const fn metric_byte(byte: u8) -> bool {
    label_byte(byte) || byte == b':'
}

/// Token separators; a carriage return is none.
const BLANKS: [char; 2] = [' ', '\t'];

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(BLANKS)
}

/// The first token, and the text after the following blanks.
fn token(text: &str) -> (&str, &str) {
    let text = skip_blanks(text);
    text.split_once(BLANKS).map_or((text, ""), |(token, rest)| (token, skip_blanks(rest)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line_of(sample: &Sample<'_>) -> String {
        let mut line = String::new();
        sample.write(None, &mut line).expect("a string takes all text");
        line
    }

    /// Every part of a sample.
    fn parts<'a>(sample: &'a Sample<'_>) -> (&'a str, &'a [(&'a str, &'a str)], &'a str, Option<&'a str>) {
        (sample.name, &sample.labels, sample.value, sample.timestamp)
    }

    fn fault(line: &str) -> Fault {
        read(line).expect_err(line)
    }

    #[test]
    fn the_formats_own_liberties_are_read() {
        for (line, written) in [
            ("a 1", "a 1"),
            ("  a\t 1  -12 \t", "a 1 -12"),
            ("a:b_9{} +Inf", "a:b_9 +Inf"),
            ("a{ x = \"1\" , y=\"\\\\ \\\" \\n }{,\", }NaN 0", "a{x=\"1\",y=\"\\\\ \\\" \\n }{,\"} NaN 0"),
            ("a {x=\"\u{fc}\"} -1.5e-9", "a{x=\"\u{fc}\"} -1.5e-9"),
            ("a .5", "a .5"),
        ] {
            let Ok(Line::Sample(sample)) = read(line) else { unreachable!("{line}") };
            assert_eq!(line_of(&sample), written);
        }
        for nothing in ["", "  \t", "#", "# plain", "#HELPER x", "# EOF", "# UNIT a b"] {
            assert_eq!(read(nothing), Ok(Line::Nothing), "{nothing}");
        }
        assert_eq!(read("#HELP a \\\\ \\n x "), Ok(Line::Help { name: "a", text: "\\\\ \\n x " }));
        assert_eq!(read("# HELP a"), Ok(Line::Help { name: "a", text: "" }));
        assert_eq!(read("\t# TYPE  a  gauge\t"), Ok(Line::Type { name: "a", kind: Kind::Gauge }));
    }

    #[test]
    fn what_the_format_does_not_allow_is_a_fault() {
        for (line, expected) in [
            ("<html>", Fault::Name),
            ("9a 1", Fault::Name),
            ("a", Fault::Name),
            ("a\u{fc} 1", Fault::Name),
            ("a ", Fault::Value),
            ("a 1\r", Fault::Value),
            ("\r", Fault::Name),
            ("a 1 # {trace_id=\"x\"} 1", Fault::Timestamp),
            ("a 1 1.5", Fault::Timestamp),
            ("a 1 2 3", Fault::Timestamp),
            ("a 1e999", Fault::Value),
            ("a -NaN", Fault::Value),
            ("a 0x1p3", Fault::Value),
            ("a 1_0", Fault::Value),
            ("a{x=\"1\" 1", Fault::Label),
            ("a{x=\"1} 1", Fault::Label),
            ("a{x=1} 1", Fault::Label),
            ("a{x} 1", Fault::Label),
            ("a{,} 1", Fault::Name),
            ("a{x:y=\"1\"} 1", Fault::Label),
            ("a{__name__=\"b\"} 1", Fault::Label),
            ("a{x=\"1\",x=\"2\"} 1", Fault::LabelTwice),
            ("a{x=\"\\t\"} 1", Fault::Escape),
            ("# HELP a \\t", Fault::Escape),
            ("# HELP", Fault::Comment),
            ("# TYPE ", Fault::Comment),
            ("# TYPE a", Fault::Type),
            ("# TYPE a Counter", Fault::Type),
            ("# TYPE a counter x", Fault::Type),
            ("# TYPE a counter\r", Fault::Type),
            ("# HELP 1 x", Fault::Name),
        ] {
            assert_eq!(fault(line), expected, "{line:?}");
        }
    }

    #[test]
    fn each_limit_holds_at_the_limit_and_not_one_past_it() {
        let ids = |length: usize| format!("{} 1", "a".repeat(length));
        assert!(read(&ids(MAX_NAME_BYTES)).is_ok());
        assert_eq!(fault(&ids(MAX_NAME_BYTES + 1)), Fault::TooLong);
        let labelled = |count: usize| {
            let labels: Vec<_> = (0..count).map(|number| format!("l{number}=\"\"")).collect();
            format!("a{{{}}} 1", labels.join(","))
        };
        assert!(read(&labelled(MAX_LABELS)).is_ok());
        assert_eq!(fault(&labelled(MAX_LABELS + 1)), Fault::TooLong);
        let long = |length: usize| format!("#{}", "x".repeat(length - 1));
        assert!(read(&long(MAX_LINE_BYTES)).is_ok());
        assert_eq!(fault(&long(MAX_LINE_BYTES + 1)), Fault::TooLong);
    }

    fn escaped(text: &str) -> String {
        text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(
            name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
            labels in proptest::collection::btree_map("[a-z_][a-z0-9_]{0,9}", any::<String>(), 0..6),
            value in any::<f64>().prop_filter("no signed NaN", |value| !value.is_nan()),
            timestamp in any::<Option<i64>>(),
        ) {
            let labels: Vec<_> = labels.into_iter().map(|(name, value)| (name, escaped(&value))).collect();
            let (value, timestamp) = (format!("{value}"), timestamp.map(|time| time.to_string()));
            let sample = Sample {
                name: &name,
                labels: labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
                value: &value,
                timestamp: timestamp.as_deref(),
            };
            let written = line_of(&sample);
            let again = read_sample(&written).expect("a sample");
            prop_assert_eq!(parts(&again), parts(&sample), "{}", written);
        }

        #[test]
        fn whatever_comes_is_read_or_refused_and_a_second_reading_agrees(line in "[ -~\\t\\r\u{e9}]{0,80}") {
            if let Ok(Line::Sample(sample)) = read(&line) {
                let written = line_of(&sample);
                let again = read_sample(&written).expect("a sample");
                prop_assert_eq!(parts(&again), parts(&sample), "{}", written);
            }
        }
    }
}
