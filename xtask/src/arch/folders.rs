//! Imports between the folders of one crate: none may point upward in the crate's list of folders, and none may form a
//! cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The layers of one crate or of one of its folders: the folders and files directly below it, lower layers first. Each
/// imports only earlier ones.
pub(super) struct Floors {
    /// The crate's `src`, or a folder below it.
    pub(super) source: &'static str,
    pub(super) order: &'static [&'static str],
}

/// The imports of a crate.
pub(super) struct Report {
    /// Each room (folder or file) with the rooms that it imports.
    pub(super) rooms: BTreeMap<String, BTreeSet<String>>,
    /// The largest set of files that all reach each other.
    pub(super) largest_circle: Vec<PathBuf>,
    pub(super) problems: Vec<String>,
}

impl Report {
    /// The rooms and their imports, formatted for people.
    pub(super) fn table(&self, floors: &Floors) -> String {
        let mut lines = vec![format!(
            "{}: {} files in the largest import cycle",
            floors.source,
            self.largest_circle.len()
        )];
        for (room, imports) in &self.rooms {
            let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
            lines.push(format!("  {room:14} <- {}", imports.join(", ")));
        }
        lines.join("\n")
    }
}

pub(super) fn check(root: &Path, floors: &Floors) -> anyhow::Result<Report> {
    let (source, folder) = floors.source.split_once("/src/").map_or_else(
        || (root.join(floors.source), PathBuf::new()),
        |(name, folder)| (root.join(name).join("src"), PathBuf::from(folder)),
    );
    let imports = below(&folder, &super::imports::of_crate(&source)?);
    let rooms = rooms(&imports);
    let mut problems = upward(floors, &rooms);
    for circle in circles(&rooms) {
        problems.push(format!("{}: a cycle across folders: {}", floors.source, circle.join(", ")));
    }
    let largest_circle = circles(&imports).into_iter().max_by_key(Vec::len).unwrap_or_default();
    Ok(Report { rooms, largest_circle, problems })
}

/// The files of `folder`, relative to it, with their imports of each other.
fn below(
    folder: &Path,
    imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>,
) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let named = |file: &Path| file.strip_prefix(folder).ok().map(Path::to_owned);
    let own = imports.iter().filter_map(|(file, targets)| Some((named(file)?, targets)));
    own.map(|(file, targets)| (file, targets.iter().filter_map(|target| named(target)).collect())).collect()
}

/// The room of a file; the root of a crate or folder has none, because it may import every room.
fn room(file: &Path) -> Option<String> {
    let name = file.iter().next()?.to_string_lossy().trim_end_matches(".rs").to_owned();
    (!["lib", "main", "mod"].contains(&name.as_str())).then_some(name)
}

fn rooms(imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, targets) in imports {
        let Some(from) = room(file) else { continue };
        let targets = targets.iter().filter_map(|target| room(target)).filter(|to| *to != from);
        let targets: Vec<String> = targets.collect();
        rooms.entry(from).or_default().extend(targets);
    }
    rooms
}

fn upward(floors: &Floors, rooms: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let Floors { source, order } = floors;
    let floor = |room: &str| order.iter().position(|listed| *listed == room);
    let mut problems = Vec::new();
    for (from, targets) in rooms {
        let Some(own) = floor(from) else {
            problems.push(format!("{source}/{from} has no floor in `xtask arch`"));
            continue;
        };
        for to in targets.iter().filter(|to| floor(to).is_some_and(|floor| floor > own)) {
            problems.push(format!("{source}/{from} imports {to}, which is above it"));
        }
    }
    problems
}

/// The strongly connected components with more than one node.
fn circles<Node: Clone + Ord>(graph: &BTreeMap<Node, BTreeSet<Node>>) -> Vec<Vec<Node>> {
    let reach: BTreeMap<&Node, BTreeSet<&Node>> =
        graph.keys().map(|node| (node, reached(graph, node))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (node, targets) in &reach {
        let circle: Vec<Node> = targets
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(node)))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            found.push(circle);
        }
    }
    found
}

/// Every node reachable from `from`.
fn reached<'a, Node: Ord>(graph: &'a BTreeMap<Node, BTreeSet<Node>>, from: &'a Node) -> BTreeSet<&'a Node> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            graph.entry((*to).to_owned()).or_default();
        }
        graph
    }

    const FLOORS: Floors = Floors { source: "planted", order: &["config", "http", "server"] };

    #[test]
    fn an_import_of_a_lower_floor_is_in_order_and_one_of_a_higher_floor_is_not() {
        assert!(upward(&FLOORS, &graph(&[("server", "http"), ("http", "config")])).is_empty());
        let planted = upward(&FLOORS, &graph(&[("server", "http"), ("http", "server")]));
        assert_eq!(planted, ["planted/http imports server, which is above it"]);
        assert_eq!(
            upward(&FLOORS, &graph(&[("attic", "http")])),
            ["planted/attic has no floor in `xtask arch`"]
        );
    }

    #[test]
    fn the_files_of_a_folder_are_named_from_there() {
        let path = PathBuf::from;
        let imports = BTreeMap::from([
            (path("engine/sql.rs"), BTreeSet::from([path("engine/model.rs"), path("config.rs")])),
            (path("engine/mod.rs"), BTreeSet::from([path("engine/sql.rs")])),
            (path("config.rs"), BTreeSet::new()),
        ]);
        let found = below(Path::new("engine"), &imports);
        assert_eq!(found[Path::new("sql.rs")], BTreeSet::from([path("model.rs")]));
        assert_eq!(found.len(), 2, "no files of other folders");
        assert_eq!(rooms(&found).into_keys().collect::<Vec<_>>(), ["sql"], "the folder's root has no floor");
    }

    #[test]
    fn a_circle_is_found_over_any_number_of_rooms() {
        assert!(circles(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        assert_eq!(circles(&graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])), [["a", "b", "c"]]);
    }
}
