//! `authz.fragment.json` and the relations of an app's manifest: accepted input references only declared names and is
//! anchored, so that the engine never sees anything else.

#![no_main]

use contract::envelope::MAX_PROBLEMS;
use contract::fragment::{
    ANCHOR, Expression, MAX_RELATIONS, MAX_TYPES, Relations, is_base_type, parse, parse_relations,
};
use contract_fuzz::timed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| timed(|| judge(text)));

fn judge(text: &str) {
    match parse(text, "crm") {
        Ok(fragment) => hold(&fragment.relations),
        Err(problems) => assert!((1..=MAX_PROBLEMS + 1).contains(&problems.len())),
    }
    if let Ok(value) = serde_json::from_str(text)
        && let Ok(relations) = parse_relations(&value, "authzFragment")
    {
        hold(&relations);
    }
}

fn hold(relations: &Relations) {
    assert!(relations.len() <= MAX_TYPES);
    for (name, of_type) in relations {
        assert!(!is_base_type(name) && of_type.len() <= MAX_RELATIONS);
        assert_eq!(of_type.get(ANCHOR), Some(&Expression::This));
        for expression in of_type.values() {
            declared(expression, &|relation| of_type.contains_key(relation));
        }
    }
}

fn declared(expression: &Expression, is: &impl Fn(&str) -> bool) {
    match expression {
        Expression::This => {}
        Expression::Computed(relation) => assert!(is(relation)),
        Expression::TupleTo { tupleset, .. } => assert!(is(tupleset)),
        Expression::Union(children) => {
            assert!(!children.is_empty());
            children.iter().for_each(|child| declared(child, is));
        }
    }
}
