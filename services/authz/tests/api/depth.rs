//! Answers about a deep object stay small: a path and a tree of a few tuples, however long the chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use authz::engine::{FixedGraph, Model, TupleRow};
use authz::facts::{Ask, Held, SubjectRef};
use contract::decision::ObjectRef;
use contract::fragment::Expression;
use serde_json::{Value, json};

/// Length of the chain.
const DEPTH: usize = 20_000;
/// Maximum length of a path and height of a tree.
const MAX_SHOWN: usize = 32;

/// A chain `folder:0` in `folder:1` in … in `folder:<depth>`; ann may view the last one.
fn folders(depth: usize) -> FixedGraph {
    let parent = Expression::TupleTo { tupleset: "parent".to_owned(), computed: "viewer".to_owned() };
    let viewer = Expression::Union(vec![Expression::This, parent]);
    let relations = [("parent".to_owned(), Expression::This), ("viewer".to_owned(), viewer)];
    let types =
        [("user".to_owned(), BTreeMap::new()), ("folder".to_owned(), BTreeMap::from(relations))].into();
    let model = Arc::new(Model::compile(0, &types, &BTreeMap::new()).expect("each type once"));
    let names: Vec<String> = (0..=depth).map(|number| number.to_string()).collect();
    let row = |object_id, relation, subject_type, subject_id| TupleRow {
        object_type: "folder",
        object_id,
        relation,
        subject_type,
        subject_id,
        subject_relation: "",
    };
    let parents = names.windows(2).map(|pair| row(pair[0].as_str(), "parent", "folder", pair[1].as_str()));
    let last = row(&names[depth], "viewer", "user", "ann");
    FixedGraph::build(&model, parents.chain([last])).expect("room")
}

fn viewer() -> Ask {
    Ask::new(ObjectRef { kind: "folder".to_owned(), id: "0".to_owned() }, "viewer")
}

/// The height of a tree, and whether it is marked as truncated.
fn height(tree: &Value) -> (usize, bool) {
    let branches = tree["from"].as_array().cloned().unwrap_or_default();
    let below = branches.iter().map(|branch| height(&branch["to"])).max().unwrap_or_default();
    (below.0 + 1, below.1 || tree["truncated"] == true)
}

#[test]
fn a_path_is_whole_up_to_its_limit_and_says_that_there_is_more_past_it() {
    for (depth, more) in [(MAX_SHOWN - 1, false), (MAX_SHOWN, true), (DEPTH, true)] {
        let (held, path) = folders(depth).check(&SubjectRef::user("ann"), &[viewer()]).remove(0);
        assert_eq!(held, Held::Yes, "{depth}");
        let tuples: Vec<&str> = path.split(" > ").collect();
        assert_eq!(tuples[0], "folder:0#parent@folder:1");
        assert_eq!(tuples.last() == Some(&"…"), more, "{depth}: {} bytes", path.len());
        assert_eq!(tuples.len() - usize::from(more), MAX_SHOWN, "{depth}: {} bytes", path.len());
    }
}

#[test]
fn a_tree_is_as_deep_as_its_limit_and_still_says_what_is_held() {
    for (depth, more) in [(MAX_SHOWN - 1, false), (MAX_SHOWN, true), (DEPTH, true)] {
        let tree = folders(depth).tree(&SubjectRef::user("ann"), &viewer()).expect("a tree");
        let tree = json!(tree);
        let bytes = tree.to_string().len();
        assert_eq!(height(&tree), (MAX_SHOWN, more), "{depth}: {bytes} bytes");
        assert_eq!(tree["held"], true, "{depth}");
        assert!(bytes < 64 << 10, "{depth}: {bytes} bytes");
    }
}

/// A folder in very many folders that contain each other, so that each leads to all.
#[test]
fn a_tree_counts_what_it_repeats() {
    let mut graph = folders(1);
    let names: Vec<String> = (0..150).map(|number| format!("n{number}")).collect();
    for object_id in names.iter().map(String::as_str).chain(["0"]) {
        for subject_id in &names {
            let row = TupleRow {
                object_type: "folder",
                object_id,
                relation: "parent",
                subject_type: "folder",
                subject_id,
                subject_relation: "",
            };
            graph.apply(true, &row).expect("room");
        }
    }
    let tree = json!(graph.tree(&SubjectRef::user("ann"), &viewer()).expect("a tree"));
    let (text, repeated) = (tree.to_string(), tree.to_string().matches("\"repeated\":true").count());
    assert!(text.len() < 64 << 10 && repeated < 200, "{} bytes, {repeated} repeated", text.len());
    assert_eq!((&tree["held"], height(&tree).1), (&json!(true), true));
}
