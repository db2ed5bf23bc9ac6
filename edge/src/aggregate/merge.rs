//! Many expositions into one: families by name, each in one piece under one HELP and one TYPE, and `scrape_up` for
//! every target. Pure.
//!
//! If services use one name for different families, the gateway's own definition wins, then the one that most targets
//! declare, then the one that comes first. A declared type takes precedence over none. A target with a contradicting
//! family fails as a whole; samples without a type join a counter or a gauge of their name.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::aggregate::exposition::{Exposition, Family, SCRAPE_UP};
use crate::aggregate::line::Kind;

const SCRAPE_UP_HELP: &str = "Whether the service's metrics could be read: 1, or 0.";
/// Text of this length or more is passed on without copying; for shorter text, copying is cheaper than a separate
/// write.
const PIECE_BYTES: usize = 16 << 10;

/// One target's scrape.
pub(super) struct Scraped {
    pub(super) service: String,
    /// `None` if it failed.
    pub(super) exposition: Option<Exposition>,
}

/// The meaning of a sample's name: a family and its type.
type Meaning<'a> = (&'a str, Kind);

/// The families claimed for each name, with their votes, in the order of appearance.
type Ballot<'a> = HashMap<String, Vec<(Meaning<'a>, usize)>>;

/// One family of the merged answer.
struct Merged<'a> {
    kind: Kind,
    help: Option<&'a str>,
    samples: Vec<Bytes>,
}

/// The answer being built: pieces of targets' texts, and the text between them.
#[derive(Default)]
struct Answer {
    pieces: Vec<Bytes>,
    written: String,
}

impl Answer {
    fn write(&mut self, parts: &[&str]) {
        self.written.extend(parts.iter().copied());
    }

    fn put(&mut self, samples: &Bytes) {
        if samples.len() < PIECE_BYTES
            && let Ok(text) = std::str::from_utf8(samples)
        {
            self.written.push_str(text);
        } else {
            self.end_piece();
            self.pieces.push(samples.clone());
        }
    }

    fn end_piece(&mut self) {
        if !self.written.is_empty() {
            self.pieces.push(Bytes::from(std::mem::take(&mut self.written)));
        }
    }
}

/// Fails every target whose families contradict the elected ones; returns the services of the failed targets.
pub(super) fn settle(own: &Exposition, targets: &mut [Scraped]) -> Vec<String> {
    let losers: Vec<usize> = {
        let meanings = elect(own, targets);
        let contradicts = |family: &Family| names(family).any(|name| !agrees(family, meanings.get(&name)));
        let lost = |target: &Scraped| {
            target.exposition.as_ref().is_some_and(|exposition| exposition.families.iter().any(contradicts))
        };
        (0..).zip(targets.iter()).filter(|(_, target)| lost(target)).map(|(position, _)| position).collect()
    };
    let fail = |position: usize| {
        let target = targets.get_mut(position)?;
        target.exposition = None;
        Some(target.service.clone())
    };
    losers.into_iter().filter_map(fail).collect()
}

/// Renders the answer in pieces: the gateway's own series, those of the targets, and which targets were read. Long
/// texts are not copied.
pub(super) fn render(own: &Exposition, targets: &[Scraped]) -> Vec<Bytes> {
    let mut families: BTreeMap<&str, Merged<'_>> = BTreeMap::new();
    let read = targets.iter().filter_map(|target| target.exposition.as_ref());
    for exposition in std::iter::once(own).chain(read) {
        for family in &exposition.families {
            add(&mut families, family, exposition.samples(family));
        }
    }
    let samples = vec![Bytes::from(scrape_up(targets))];
    families.insert(SCRAPE_UP, Merged { kind: Kind::Gauge, help: Some(SCRAPE_UP_HELP), samples });
    let mut answer = Answer::default();
    for (name, family) in &families {
        write(&mut answer, name, family);
    }
    answer.end_piece();
    answer.pieces
}

fn scrape_up(targets: &[Scraped]) -> String {
    targets.iter().fold(String::new(), |out, target| {
        let up = u8::from(target.exposition.is_some());
        out + SCRAPE_UP + "{service=\"" + &target.service + "\"} " + &up.to_string() + "\n"
    })
}

fn add<'a>(families: &mut BTreeMap<&'a str, Merged<'a>>, family: &'a Family, samples: Bytes) {
    let merged = families.entry(&family.name).or_insert_with(|| Merged {
        kind: Kind::Untyped,
        help: None,
        samples: Vec::new(),
    });
    if merged.kind == Kind::Untyped {
        merged.kind = family.kind;
    }
    merged.help = merged.help.or(family.help.as_deref());
    merged.samples.push(samples);
}

fn write(answer: &mut Answer, name: &str, family: &Merged<'_>) {
    if let Some(help) = family.help {
        answer.write(&["# HELP ", name, " ", help, "\n"]);
    }
    answer.write(&["# TYPE ", name, " ", family.kind.word(), "\n"]);
    for samples in &family.samples {
        answer.put(samples);
    }
}

/// Elects the meaning of every name.
fn elect<'a>(own: &'a Exposition, targets: &'a [Scraped]) -> HashMap<String, Meaning<'a>> {
    let mut ballot = Ballot::new();
    vote(&mut ballot, own, usize::MAX);
    for exposition in targets.iter().filter_map(|target| target.exposition.as_ref()) {
        vote(&mut ballot, exposition, 1);
    }
    let winner = |readings: Vec<(Meaning<'a>, usize)>| {
        // `max_by_key` returns the last maximum, so the order is reversed to prefer the first.
        readings.into_iter().rev().max_by_key(|(_, votes)| *votes).map(|(meaning, _)| meaning)
    };
    ballot.into_iter().filter_map(|(name, readings)| Some((name, winner(readings)?))).collect()
}

fn vote<'a>(ballot: &mut Ballot<'a>, exposition: &'a Exposition, weight: usize) {
    for family in &exposition.families {
        let meaning = (family.name.as_str(), family.kind);
        let weight = if family.kind == Kind::Untyped { 0 } else { weight };
        for name in names(family) {
            let readings = ballot.entry(name).or_default();
            match readings.iter_mut().find(|(known, _)| *known == meaning) {
                Some((_, votes)) => *votes = votes.saturating_add(weight),
                None => readings.push((meaning, weight)),
            }
        }
    }
}

fn agrees(family: &Family, meaning: Option<&Meaning<'_>>) -> bool {
    meaning.is_none_or(|(name, kind)| {
        let joins = family.kind == Kind::Untyped && matches!(kind, Kind::Counter | Kind::Gauge);
        *name == family.name && (*kind == family.kind || joins)
    })
}

/// Every name that a family claims: its samples' names, and its own.
fn names(family: &Family) -> impl Iterator<Item = String> + '_ {
    let own = (!family.kind.suffixes().contains(&"")).then(|| family.name.clone());
    family.sample_names().chain(own)
}

#[cfg(test)]
mod tests {
    use super::super::exposition::Reading;
    use super::*;

    fn exposition(service: &str, text: &str) -> Exposition {
        let mut reading = Reading::new(service);
        reading.feed(text.as_bytes()).expect("a good exposition");
        reading.finish(|| ()).expect("a good exposition")
    }

    fn scraped(targets: &[(&str, &str)]) -> Vec<Scraped> {
        let one = |(service, text): &(&str, &str)| Scraped {
            service: (*service).to_owned(),
            exposition: Some(exposition(service, text)),
        };
        targets.iter().map(one).collect()
    }

    fn rendered(own: &Exposition, targets: &[Scraped]) -> String {
        String::from_utf8(render(own, targets).concat()).expect("text")
    }

    fn losers(own: &str, targets: &[(&str, &str)]) -> Vec<String> {
        settle(&exposition("gateway", own), &mut scraped(targets))
    }

    const COUNTER: &str = "# TYPE a counter\na 1\n";
    const GAUGE: &str = "# TYPE a gauge\na 1\n";
    const UNTYPED: &str = "a 1\n";
    const HISTOGRAM: &str = "# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n";

    #[test]
    fn families_of_one_name_stand_together_under_one_header() {
        let own = exposition("gateway", "# HELP b own\n# TYPE b counter\nb 1\n");
        let mut targets = scraped(&[
            ("org", "# HELP b other\n# TYPE b counter\nb 2\n# HELP a x\na 3\n"),
            ("authz", "b{x=\"1\"} 4\nc 5\n"),
        ]);
        targets.push(Scraped { service: "docs".to_owned(), exposition: None });
        assert!(settle(&own, &mut targets).is_empty());
        assert_eq!(
            rendered(&own, &targets),
            "# HELP a x\n# TYPE a untyped\na{service=\"org\"} 3\n\
             # HELP b own\n# TYPE b counter\n\
             b{service=\"gateway\"} 1\nb{service=\"org\"} 2\nb{x=\"1\",service=\"authz\"} 4\n\
             # TYPE c untyped\nc{service=\"authz\"} 5\n\
             # HELP platform_metrics_scrape_up Whether the service's metrics could be read: 1, or 0.\n\
             # TYPE platform_metrics_scrape_up gauge\n\
             platform_metrics_scrape_up{service=\"org\"} 1\n\
             platform_metrics_scrape_up{service=\"authz\"} 1\n\
             platform_metrics_scrape_up{service=\"docs\"} 0\n"
        );
    }

    #[test]
    fn what_is_long_is_not_copied_and_stands_where_it_belongs() {
        let long: Vec<_> = (0..1_000).map(|number| format!("b{{x=\"{number}\"}} 1\n")).collect();
        let long = long.concat();
        let own = exposition("gateway", "a 1\nc 1\n");
        let targets = scraped(&[("org", &long), ("authz", "b 2\n")]);
        let pieces = render(&own, &targets);
        let kept = targets.first().and_then(|target| target.exposition.as_ref()).expect("it is there");
        let long = kept.samples(kept.families.first().expect("one family"));
        assert!(pieces.iter().any(|piece| piece.as_ptr() == long.as_ptr() && piece.len() == long.len()));
        let text = rendered(&own, &targets);
        let upstream = |of: &str| text.find(of).unwrap_or_else(|| panic!("{of}"));
        let order =
            ["# TYPE a ", "# TYPE b ", "b{x=\"0\"", "b{x=\"999\"", "b{service=\"authz\"", "# TYPE c "];
        assert!(order.map(upstream).is_sorted(), "{text}");
    }

    #[test]
    fn who_contradicts_the_gateway_or_the_others_is_failed() {
        assert_eq!(losers(COUNTER, &[("x", GAUGE), ("y", GAUGE), ("z", COUNTER)]), ["x", "y"]);
        assert_eq!(losers("", &[("x", GAUGE), ("y", COUNTER), ("z", COUNTER)]), ["x"]);
        assert_eq!(losers("", &[("x", GAUGE), ("y", COUNTER)]), ["y"]);
        assert_eq!(losers("", &[("x", UNTYPED), ("y", COUNTER), ("z", UNTYPED)]), Vec::<String>::new());
        assert_eq!(losers("", &[("x", UNTYPED), ("y", HISTOGRAM), ("z", UNTYPED)]), ["x", "z"]);
        assert_eq!(losers("", &[("x", HISTOGRAM), ("y", "# TYPE a_count counter\na_count 1\n")]), ["y"]);
        assert_eq!(losers(HISTOGRAM, &[("x", "a_sum 1\n"), ("y", "a_sums 1\n")]), ["x"]);
    }

    #[test]
    fn a_merged_answer_reads_like_any_other() {
        let own = exposition("gateway", HISTOGRAM);
        let targets =
            scraped(&[("x", HISTOGRAM), ("y", "# HELP n \\\\ \\n\n# TYPE n summary\nn_sum NaN -1\n")]);
        // The last family is the gateway's own, which targets may not send.
        let answer = rendered(&own, &targets);
        let (sent, _) = answer.split_once("# HELP platform_metrics_scrape_up").expect("the last family");
        let read = exposition("all", &sent.replace("service=", "origin="));
        let names: Vec<_> = read.families.iter().map(|family| (family.name.as_str(), family.kind)).collect();
        assert_eq!(names, [("a", Kind::Histogram), ("n", Kind::Summary)]);
    }
}
