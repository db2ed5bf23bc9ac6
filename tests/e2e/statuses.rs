//! Route × status: compares the listed statuses with those that occurred. For the journeys that produce every status of
//! a table through the gateway.

use std::collections::{BTreeMap, BTreeSet};

/// `METHOD /path` of a row.
pub(crate) type Route = String;
/// Each route with its listed statuses.
pub(crate) type Rows = Vec<(Route, BTreeSet<u16>)>;

/// A table, and how often each of its statuses occurred.
pub(crate) struct Table {
    rows: Rows,
    seen: BTreeMap<Route, BTreeMap<u16, usize>>,
}

impl Table {
    pub(crate) const fn new(rows: Rows) -> Self {
        Self { rows, seen: BTreeMap::new() }
    }

    /// The table's rows, as a copy, because callers iterate over them while responses are counted.
    pub(crate) fn rows(&self) -> Rows {
        self.rows.clone()
    }

    /// Counts a response. An unlisted status is reported at the end, with the whole table.
    pub(crate) fn count(&mut self, route: &str, status: u16) {
        *self.seen.entry(route.to_owned()).or_default().entry(status).or_default() += 1;
    }

    /// Prints the statuses that occurred, and fails unless they are exactly the listed ones.
    pub(crate) fn print_and_compare(&self) {
        let (mut statuses, mut answers, mut wrong) = (0, 0, Vec::new());
        for (route, listed) in &self.rows {
            let counts = self.seen.get(route).cloned().unwrap_or_default();
            let told: Vec<String> =
                counts.iter().map(|(status, count)| format!("{status}×{count}")).collect();
            println!("{route:<70} {}", told.join(" "));
            let came: BTreeSet<u16> = counts.keys().copied().collect();
            if came != *listed {
                wrong.push(format!("{route}: listed {listed:?}, came {came:?}"));
            }
            statuses += listed.len();
            answers += counts.values().sum::<usize>();
        }
        let listed: BTreeSet<&Route> = self.rows.iter().map(|(route, _)| route).collect();
        wrong.extend(
            self.seen.keys().filter(|route| !listed.contains(route)).map(|route| format!("{route}: no row")),
        );
        assert!(wrong.is_empty(), "{wrong:#?}");
        println!(
            "{} rows, {statuses} statuses, {answers} answers: every listed one produced, no other",
            self.rows.len()
        );
    }
}

/// The path with its parameters filled in, in order.
pub(crate) fn filled(path: &str, ids: &[&str]) -> String {
    let mut filled = path.to_owned();
    for id in ids {
        let Some((start, end)) = filled.find('{').zip(filled.find('}')) else { break };
        filled.replace_range(start..=end, id);
    }
    filled
}
