//! The exposition of one target, parsed as it arrives: families in one piece, one HELP and one TYPE each, every series
//! once, and `service` set to the target's own name. Pure. Samples are stored as they will be written, so that merging
//! only copies.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::BuildHasher;
use std::ops::Range;

use bytes::Bytes;
use foldhash::quality::RandomState;
use memchr::memchr;

use crate::aggregate::line;
use crate::aggregate::line::{Fault, Kind, Line, MAX_LINE_BYTES, Sample};
use crate::aggregate::text::{Numbers, Text};

/// Series per target: ten times what the platform's largest service has.
pub(super) const MAX_SERIES: usize = 100_000;
/// Families per target: a hundred times what a service of the platform has.
pub(super) const MAX_FAMILIES: usize = 10_000;
/// The bytes of a HELP line besides name and text.
const HELP_LINE_BYTES: usize = "# HELP  \n".len();
/// The maximum bytes of a family's TYPE line besides its name.
const TYPE_LINE_BYTES: usize = "# TYPE  histogram\n".len();
/// The label that names the service; a target's own is overwritten.
const SERVICE: &str = "service";
/// A family that only the gateway writes.
pub(super) const SCRAPE_UP: &str = "platform_metrics_scrape_up";

/// The content of one target's exposition.
#[derive(Debug)]
pub(super) struct Exposition {
    pub(super) families: Vec<Family>,
    /// All samples as they will be written, one per line.
    text: Bytes,
}

/// One family.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The escaped help text.
    pub(super) help: Option<String>,
    typed: bool,
    samples: Range<usize>,
}

/// An exposition being parsed.
#[derive(Debug)]
pub(super) struct Reading {
    service: String,
    families: Vec<Family>,
    /// The samples so far, as they will be written.
    text: Text,
    /// Maps every name of a sample or a family to its family.
    names: HashMap<String, usize>,
    /// One hash per series. A target that causes a collision fails only itself.
    series: Numbers,
    hasher: RandomState,
    /// The maximum bytes of the HELP and TYPE lines.
    headers: usize,
    rest: Vec<u8>,
}

impl Exposition {
    /// An exposition without series.
    pub(super) const fn empty() -> Self {
        Self { families: Vec::new(), text: Bytes::new() }
    }

    /// The samples of a family, one per line; a slice, not a copy.
    pub(super) fn samples(&self, family: &Family) -> Bytes {
        self.text.slice(family.samples.clone())
    }
}

impl Family {
    fn new(name: &str, start: usize) -> Self {
        let name = name.to_owned();
        Self { name, kind: Kind::Untyped, help: None, typed: false, samples: start..start }
    }

    /// Every name a sample of this family may have.
    pub(super) fn sample_names(&self) -> impl Iterator<Item = String> + '_ {
        self.kind.suffixes().iter().map(|suffix| format!("{}{suffix}", self.name))
    }

    /// Whether a sample with this name belongs to this family. One with the bare family name does, even if the type
    /// does not allow it.
    fn holds(&self, sample: &str) -> bool {
        let suffix = sample.strip_prefix(self.name.as_str());
        suffix.is_some_and(|suffix| suffix.is_empty() || self.kind.suffixes().contains(&suffix))
    }

    /// Whether the family's type allows this sample.
    fn fits(&self, sample: &Sample<'_>) -> bool {
        let suffix = sample.name.strip_prefix(self.name.as_str()).unwrap_or_default();
        let numbered = |label| {
            let mut labels = sample.labels.iter();
            labels.any(|(name, value)| *name == label && line::number(value).is_some())
        };
        match (self.kind, suffix) {
            (Kind::Histogram, "_bucket") => numbered("le"),
            (Kind::Summary, "") => numbered("quantile"),
            (kind, suffix) => kind.suffixes().contains(&suffix),
        }
    }
}

impl Reading {
    pub(super) fn new(service: &str) -> Self {
        Self {
            service: service.to_owned(),
            families: Vec::new(),
            text: Text::default(),
            names: HashMap::new(),
            series: Numbers::default(),
            hasher: RandomState::default(),
            headers: 0,
            rest: Vec::new(),
        }
    }

    /// Parses the next bytes, split anywhere.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut left = bytes;
        while let Some((line, after)) = memchr(b'\n', left).and_then(|end| left.split_at_checked(end)) {
            left = after.get(1..).unwrap_or_default();
            if self.rest.is_empty() {
                self.line(line)?;
            } else {
                self.keep(line)?;
                let line = std::mem::take(&mut self.rest);
                self.line(&line)?;
            }
        }
        self.keep(left)
    }

    /// Buffers part of an unfinished line.
    fn keep(&mut self, begun: &[u8]) -> Result<(), Fault> {
        self.rest.extend_from_slice(begun);
        if self.rest.len() > MAX_LINE_BYTES {
            return Err(Fault::TooLong);
        }
        Ok(())
    }

    /// The maximum bytes that this target adds to the answer.
    pub(super) const fn written(&self) -> usize {
        self.text.len() + self.headers
    }

    /// Finishes the exposition; the last line must have ended. Calls `between` after each step, each of which is short.
    pub(super) fn finish(self, between: impl Fn()) -> Result<Exposition, Fault> {
        if !self.rest.is_empty() {
            return Err(Fault::Unended);
        }
        if self.series.repeat(between) {
            return Err(Fault::SeriesTwice);
        }
        let mut families = self.families;
        families.retain(|family| !family.samples.is_empty());
        Ok(Exposition { families, text: self.text.finish() })
    }

    fn line(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::Encoding)?;
        match line::read(text)? {
            Line::Nothing => Ok(()),
            Line::Help { name, text } => self.help(name, text),
            Line::Type { name, kind } => self.kind(name, kind),
            Line::Sample(sample) => self.sample(sample),
        }
    }

    fn help(&mut self, name: &str, text: &str) -> Result<(), Fault> {
        let (_, family) = self.header(name)?;
        if family.help.is_some() {
            return Err(Fault::Header);
        }
        family.help = Some(text.to_owned());
        self.headers += HELP_LINE_BYTES + name.len() + text.len();
        Ok(())
    }

    fn kind(&mut self, name: &str, kind: Kind) -> Result<(), Fault> {
        let (position, family) = self.header(name)?;
        if family.typed {
            return Err(Fault::Header);
        }
        family.typed = true;
        family.kind = kind;
        let names: Vec<String> = family.sample_names().collect();
        names.into_iter().try_for_each(|sample| self.claim(sample, name, position))
    }

    /// Returns the family that a HELP or TYPE line starts or belongs to; it must have no samples yet.
    fn header(&mut self, name: &str) -> Result<(usize, &mut Family), Fault> {
        let last = self.families.len().checked_sub(1);
        let is_last = self.families.last().is_some_and(|family| family.name == name);
        let position = match last.filter(|_| is_last) {
            Some(position) => position,
            None => self.begin(name)?,
        };
        let family = self.families.get_mut(position).ok_or(Fault::Header)?;
        if family.samples.is_empty() { Ok((position, family)) } else { Err(Fault::Header) }
    }

    fn begin(&mut self, name: &str) -> Result<usize, Fault> {
        if name == SCRAPE_UP {
            return Err(Fault::Reserved);
        }
        let position = self.families.len();
        if position == MAX_FAMILIES {
            return Err(Fault::TooManySeries);
        }
        self.claim(name.to_owned(), name, position)?;
        self.families.push(Family::new(name, self.text.len()));
        self.headers += TYPE_LINE_BYTES + name.len();
        Ok(position)
    }

    /// Claims a name for one family, whose samples must be contiguous.
    fn claim(&mut self, name: String, family: &str, position: usize) -> Result<(), Fault> {
        let families = &self.families;
        match self.names.get(&name) {
            Some(known) if *known == position => Ok(()),
            Some(known) if families.get(*known).is_some_and(|known| known.name == family) => {
                Err(Fault::Scattered)
            }
            Some(_) => Err(Fault::Overlap),
            None => {
                self.names.insert(name, position);
                Ok(())
            }
        }
    }

    fn sample(&mut self, sample: Sample<'_>) -> Result<(), Fault> {
        let last = self.families.last().filter(|family| family.holds(sample.name));
        let position = match last {
            Some(_) => self.families.len() - 1,
            None => self.begin(sample.name)?,
        };
        let Self { service, families, text, series, hasher, .. } = self;
        let family = families.get_mut(position).ok_or(Fault::Scattered)?;
        if !family.fits(&sample) {
            return Err(Fault::Misfit);
        }
        let mut sample = sample;
        sample.labels.retain(|(name, _)| *name != SERVICE);
        if series.len() == MAX_SERIES || series.push(hash(hasher, &sample)).is_err() {
            return Err(Fault::TooManySeries);
        }
        let written = sample.write(Some((SERVICE, service)), text).and_then(|()| text.write_str("\n"));
        written.map_err(|_| Fault::TooLong)?;
        family.samples.end = text.len();
        Ok(())
    }
}

/// A hash of name and labels, independent of the labels' order.
fn hash(hasher: &RandomState, sample: &Sample<'_>) -> u64 {
    let labels = sample.labels.iter().map(|label| hasher.hash_one(label)).fold(0, u64::wrapping_add);
    hasher.hash_one((sample.name, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Exposition, Fault> {
        let mut reading = Reading::new("org");
        reading.feed(text.as_bytes())?;
        reading.finish(|| ())
    }

    fn fault(text: &str) -> Fault {
        read(text).expect_err(text)
    }

    #[test]
    fn a_series_has_the_targets_own_service_and_no_other() {
        let text = "a 1\nb{service=\"gateway\",x=\"1\"} 2 3\nc{x=\"service\"} 4\n";
        let exposition = read(text).expect("a good one");
        let samples: Vec<_> = exposition.families.iter().map(|family| exposition.samples(family)).collect();
        assert_eq!(
            samples.concat(),
            b"a{service=\"org\"} 1\nb{x=\"1\",service=\"org\"} 2 3\nc{x=\"service\",service=\"org\"} 4\n"
        );
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_are_cut() {
        let text =
            "# HELP h \u{fc}\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n\ng 1\n";
        let whole = read(text).expect("a good one");
        let mut reading = Reading::new("org");
        for byte in text.as_bytes() {
            reading.feed(&[*byte]).expect("good so far");
        }
        let dripped = reading.finish(|| ()).expect("a good one");
        assert_eq!(dripped.text, whole.text);
        let names = |exposition: &Exposition| {
            exposition.families.iter().map(|family| (family.name.clone(), family.kind)).collect::<Vec<_>>()
        };
        assert_eq!(names(&dripped), [("h".to_owned(), Kind::Histogram), ("g".to_owned(), Kind::Untyped)]);
        assert_eq!(names(&whole), names(&dripped));
    }

    #[test]
    fn an_empty_exposition_and_a_family_without_samples_say_nothing() {
        for text in ["", "\n", "# HELP a b\n# TYPE a counter\n"] {
            assert!(read(text).expect("a good one").families.is_empty(), "{text}");
        }
    }

    #[test]
    fn families_that_the_format_does_not_allow_are_faults() {
        for (text, expected) in [
            ("a 1", Fault::Unended),
            ("a 1\n# ", Fault::Unended),
            ("# TYPE a counter\n# TYPE a counter\na 1\n", Fault::Header),
            ("# HELP a x\n# HELP a x\na 1\n", Fault::Header),
            ("a 1\n# TYPE a counter\n", Fault::Header),
            ("# TYPE a counter\na 1\n# TYPE b counter\nb 1\n# TYPE a counter\na 2\n", Fault::Scattered),
            ("a 1\nb 1\na{x=\"1\"} 1\n", Fault::Scattered),
            ("# TYPE h histogram\nh 1\n", Fault::Misfit),
            ("# TYPE h histogram\nh_bucket 1\n", Fault::Misfit),
            ("# TYPE h histogram\nh_bucket{le=\"x\"} 1\n", Fault::Misfit),
            ("# TYPE s summary\ns{x=\"1\"} 1\n", Fault::Misfit),
            ("# TYPE h summary\nh_sum 1\nh_count 1\n# TYPE h_count counter\n", Fault::Overlap),
            ("h_count 1\n# TYPE h summary\n", Fault::Overlap),
            ("a 1\na 2\n", Fault::SeriesTwice),
            ("a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 2\n", Fault::SeriesTwice),
            ("a{service=\"x\"} 1\na{service=\"y\"} 2\n", Fault::SeriesTwice),
            ("platform_metrics_scrape_up{service=\"authz\"} 1\n", Fault::Reserved),
            ("# TYPE platform_metrics_scrape_up gauge\n", Fault::Reserved),
        ] {
            assert_eq!(fault(text), expected, "{text}");
        }
        let mut reading = Reading::new("org");
        assert_eq!(reading.feed(b"a{x=\"\xff\"} 1\n"), Err(Fault::Encoding));
    }

    #[test]
    fn a_line_without_end_and_a_million_series_are_cut_on_the_way() {
        let mut reading = Reading::new("org");
        let endless = vec![b'x'; 1 << 10];
        let fed = (0..1000).take_while(|_| reading.feed(&endless).is_ok()).count();
        assert_eq!(fed, MAX_LINE_BYTES >> 10);
        let mut reading = Reading::new("org");
        let series = (0..1_000_000).map(|number| format!("a{{x=\"{number}\"}} 1\n"));
        let fed = series.into_iter().take_while(|line| reading.feed(line.as_bytes()).is_ok()).count();
        assert_eq!(fed, MAX_SERIES);
        let mut reading = Reading::new("org");
        let families = (0..1_000_000).map(|number| format!("# TYPE a{number} counter\n"));
        let fed = families.into_iter().take_while(|line| reading.feed(line.as_bytes()).is_ok()).count();
        assert_eq!(fed, MAX_FAMILIES);
    }
}
