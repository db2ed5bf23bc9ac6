//! Invariants after any history with concurrent writers: a subject is at most one member of a company, a position has
//! at most one holder, an ended term does not change, codes are unique regardless of case, and a subtree contains
//! exactly the units below its root. Also races between two administrators, each provoked many times.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Strategy, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use testkit::Reply;

use crate::support::{Org, made};
use crate::units::futures;

/// Number of times that each race is provoked.
const RACES: usize = 200;
/// Number of objects per kind and company.
const CHOICE: usize = 4;
const ADMIN: &str = "/internal/org/admin";

/// A step of a history. The first number selects the company.
#[derive(Clone, Copy, Debug)]
enum Step {
    Link(usize, usize, usize),
    Unlink(usize, usize),
    SetActive(usize, usize, bool),
    Assign(usize, usize, usize),
    EndAny(usize),
    /// A unit below an existing one, with one of a few codes in some case.
    Unit(usize, usize, usize),
    /// A member, a position or a group with one of a few codes in some case.
    Member(usize, usize),
    Position(usize, usize),
    Group(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (company, some) = (0..2_usize, 0..CHOICE);
    let pair = (company.clone(), some.clone());
    let triple = (company.clone(), some.clone(), some);
    let code = (company.clone(), 0..12_usize);
    prop_oneof![
        3 => triple.clone().prop_map(|(company, member, subject)| Step::Link(company, member, subject)),
        2 => pair.prop_map(|(company, member)| Step::Unlink(company, member)),
        1 => (company.clone(), 0..CHOICE, proptest::bool::ANY).prop_map(|(c, member, on)| Step::SetActive(c, member, on)),
        3 => triple.prop_map(|(company, position, member)| Step::Assign(company, position, member)),
        2 => company.clone().prop_map(Step::EndAny),
        3 => (company, 0..64_usize, 0..12_usize).prop_map(|(company, parent, code)| Step::Unit(company, parent, code)),
        1 => code.clone().prop_map(|(company, code)| Step::Member(company, code)),
        1 => code.clone().prop_map(|(company, code)| Step::Position(company, code)),
        1 => code.prop_map(|(company, code)| Step::Group(company, code)),
    ]
}

/// A few codes, each in three cases.
fn code(number: usize) -> String {
    let text = format!("code{}", number / 3);
    match number % 3 {
        0 => text,
        1 => text.to_uppercase(),
        _ => text.replacen('c', "C", 1),
    }
}

struct World {
    org: Org,
    companies: Vec<Company>,
}

struct Company {
    id: String,
    members: Vec<String>,
    positions: Vec<String>,
}

impl World {
    async fn start() -> Self {
        let org = Org::start().await;
        let mut companies = Vec::new();
        for number in 0..2 {
            let id = org.company(&format!("C{number}")).await;
            let (mut members, mut positions) = (Vec::new(), Vec::new());
            for number in 0..CHOICE {
                members.push(org.member(&id, &format!("m{number}")).await);
                positions.push(org.position(&id, &format!("p{number}")).await);
            }
            companies.push(Company { id, members, positions });
        }
        Self { org, companies }
    }

    async fn take(&self, step: Step) {
        let reply = match step {
            Step::Link(company, member, subject) => {
                self.org.link(&self.companies[company].members[member], &format!("s{subject}")).await
            }
            Step::Unlink(company, member) => {
                let member = &self.companies[company].members[member];
                self.org.delete(&format!("{ADMIN}/members/{member}/link-user")).await
            }
            Step::SetActive(company, member, active) => {
                let member = &self.companies[company].members[member];
                self.org.put(&format!("{ADMIN}/members/{member}"), json!({ "isActive": active })).await
            }
            Step::Assign(company, position, member) => {
                let Company { members, positions, .. } = &self.companies[company];
                let path = format!("{ADMIN}/positions/{}/assignments", positions[position]);
                self.org.post(&path, json!({ "memberId": members[member] })).await
            }
            Step::EndAny(company) => self.end_any(company).await,
            Step::Unit(company, parent, number) => self.unit(company, parent, number).await,
            Step::Member(company, number) => {
                let id = &self.companies[company].id;
                let body = json!({ "companyId": id, "code": code(number), "displayName": "M" });
                self.org.post(&format!("{ADMIN}/members"), body).await
            }
            Step::Position(company, number) => {
                let id = &self.companies[company].id;
                let body = json!({ "code": code(number), "title": "P", "orgUnitId": id });
                self.org.post(&format!("{ADMIN}/companies/{id}/positions"), body).await
            }
            Step::Group(company, number) => {
                let path = format!("{ADMIN}/companies/{}/groups", self.companies[company].id);
                self.org.post(&path, json!({ "code": code(number), "name": "G" })).await
            }
        };
        assert!(reply.status < 500, "{step:?}: {}", reply.text);
    }

    async fn end_any(&self, company: usize) -> Reply {
        let open: Option<String> = sqlx::query_scalar(
            "SELECT id::text FROM org.assignments WHERE valid_to IS NULL AND company_id = $1::uuid ORDER BY id LIMIT 1",
        )
        .bind(&self.companies[company].id)
        .fetch_optional(&self.org.owner)
        .await
        .expect("assignments");
        let id = open.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        self.org.post(&format!("{ADMIN}/assignments/{id}/end"), Value::Null).await
    }

    async fn unit(&self, company: usize, parent: usize, number: usize) -> Reply {
        let units: Vec<String> =
            sqlx::query_scalar("SELECT id::text FROM org.units WHERE company_id = $1::uuid ORDER BY id")
                .bind(&self.companies[company].id)
                .fetch_all(&self.org.owner)
                .await
                .expect("units");
        let parent = &units[parent % units.len()];
        let body =
            json!({ "typeKey": "business_unit", "parentId": parent, "code": code(number), "name": "U" });
        self.org.post(&format!("{ADMIN}/units"), body).await
    }

    async fn none(&self, what: &str, sql: &'static str) {
        let found: Vec<String> = sqlx::query_scalar(sql).fetch_all(&self.org.owner).await.expect(sql);
        assert!(found.is_empty(), "{what}: {found:?}");
    }

    async fn check(&self) {
        self.none("a subject is one member of a company", "SELECT company_id || ' ' || user_id FROM org.members WHERE user_id IS NOT NULL GROUP BY company_id, user_id HAVING count(*) > 1").await;
        self.none("the kept counts are the counts", "SELECT coalesce(k.company_id, c.company_id)::text FROM org.member_counts k FULL JOIN (SELECT company_id, count(*) AS members, count(*) FILTER (WHERE is_active) AS active FROM org.members GROUP BY company_id) AS c ON c.company_id = k.company_id WHERE (k.members, k.active) IS DISTINCT FROM (c.members, c.active)").await;
        self.none("a position has one holder", "SELECT position_id::text FROM org.assignments WHERE valid_to IS NULL GROUP BY 1 HAVING count(*) > 1").await;
        self.none("a parent is in the same company", "SELECT u.id::text FROM org.units u JOIN org.units p ON p.id = u.parent_id WHERE p.company_id <> u.company_id").await;
        self.none(
            "codes are one whatever their case",
            "SELECT code FROM (SELECT 'unit' AS kind, company_id, upper(code) AS code FROM org.units
               UNION ALL SELECT 'member', company_id, upper(code) FROM org.members
               UNION ALL SELECT 'position', company_id, upper(code) FROM org.positions
               UNION ALL SELECT 'group', company_id, upper(code) FROM org.groups) AS codes
              GROUP BY kind, company_id, code HAVING count(*) > 1",
        )
        .await;
    }

    /// The last day of each ended term.
    async fn ends(&self) -> BTreeMap<String, String> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT id::text, valid_to::text FROM org.assignments WHERE valid_to IS NOT NULL")
                .fetch_all(&self.org.owner)
                .await
                .expect("terms");
        rows.into_iter().collect()
    }

    /// Compares the subtree of every unit from the API with the rows.
    async fn check_subtrees(&self) {
        let rows: Vec<(String, Option<String>)> =
            sqlx::query_as("SELECT id::text, parent_id::text FROM org.units")
                .fetch_all(&self.org.owner)
                .await
                .expect("units");
        let parents: BTreeMap<String, Option<String>> = rows.into_iter().collect();
        for root in parents.keys() {
            let reply = self.org.get(&format!("{ADMIN}/units/{root}/subtree")).await;
            let told: Vec<String> =
                reply.data().as_array().expect("a list").iter().map(|unit| text(&unit["id"])).collect();
            assert_eq!(&told[0], root, "root first");
            let below: BTreeSet<String> =
                parents.keys().filter(|id| has_ancestor(&parents, id, root)).cloned().collect();
            assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), below);
        }
    }
}

fn has_ancestor(parents: &BTreeMap<String, Option<String>>, id: &str, root: &str) -> bool {
    id == root || parents[id].as_ref().is_some_and(|parent| has_ancestor(parents, parent, root))
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn properties_4_5_6_after_any_history_of_several_writers_the_rules_hold() {
    let world = World::start().await;
    let mut runner = TestRunner::deterministic();
    let history = proptest::collection::vec(proptest::collection::vec(step(), 2..7), 30..40);
    let mut ended = BTreeMap::new();
    for _ in 0..6 {
        for together in history.new_tree(&mut runner).expect("a history").current() {
            futures(together.iter().map(|step| world.take(*step)).collect()).await;
            world.check().await;
            let now = world.ends().await;
            for (term, end) in &ended {
                assert_eq!(now.get(term), Some(end), "an ended term does not change");
            }
            ended = now;
        }
        world.check_subtrees().await;
    }
    assert!(ended.len() > 10, "the histories ended terms: {}", ended.len());
    println!(
        "properties 4, 5, 6: 6 histories of 30 to 39 moments with 2 to 6 writers each, {} terms ended",
        ended.len()
    );
}

/// Runs two calls concurrently and returns their statuses, sorted.
async fn both(calls: Vec<impl Future<Output = Reply>>) -> Vec<u16> {
    let mut statuses: Vec<u16> = futures(calls).await.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    statuses
}

#[tokio::test]
async fn hazard_h2_two_administrators_at_once_never_break_a_rule() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let (one, two) = (org.member(&company, "one").await, org.member(&company, "two").await);
    let (position, group) = (org.position(&company, "P").await, org.group(&company, "G").await);
    let assign = |member: &str| {
        let body = json!({ "memberId": member });
        let (org, path) = (&org, format!("{ADMIN}/positions/{position}/assignments"));
        async move { org.post(&path, body).await }
    };
    for round in 0..RACES {
        let subject = format!("s{round}");
        assert_eq!(
            both(vec![org.link(&one, &subject), org.link(&two, &subject)]).await,
            [200, 409],
            "two links"
        );

        assert_eq!(
            both(vec![assign(&one), assign(&two)]).await,
            [201, 201],
            "succession, one after the other"
        );
        let open: Vec<String> =
            sqlx::query_scalar("SELECT id::text FROM org.assignments WHERE valid_to IS NULL")
                .fetch_all(&org.owner)
                .await
                .expect("terms");
        assert_eq!(open.len(), 1, "one holder");
        let end = format!("{ADMIN}/assignments/{}/end", open[0]);
        assert_eq!(
            both(vec![org.post(&end, Value::Null), org.post(&end, Value::Null)]).await,
            [200, 409],
            "two ends"
        );

        let (members, body) = (format!("{ADMIN}/groups/{group}/members"), json!({ "memberId": one }));
        assert_eq!(
            both(vec![org.post(&members, body.clone()), org.post(&members, body)]).await,
            [201, 409],
            "two adds"
        );
        org.delete(&format!("{members}/{one}")).await;
        for member in [&one, &two] {
            org.delete(&format!("{ADMIN}/members/{member}/link-user")).await;
        }
        assert!(org.tuples("org").await.is_empty(), "no tuple is left");
    }
    println!("H2: {RACES} times two links, two holders, two ends, two adds at once; one of each pair won");
}

#[tokio::test]
async fn of_two_codes_that_differ_in_case_one_is_taken() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let create = |what: &str, path: &str, rest: Value| {
        let (org, path, what) = (&org, format!("{ADMIN}{path}"), what.to_owned());
        async move {
            let with = |code: &str| {
                let mut body = rest.clone();
                body["code"] = json!(code);
                body
            };
            made(&org.post(&path, with("ab")).await);
            let again = org.post(&path, with("AB")).await.status;
            let mixed = org.post(&path, with("aB")).await.status;
            assert_eq!(again, mixed);
            format!("{what} {again}")
        }
    };
    let positions = format!("/companies/{company}/positions");
    let groups = format!("/companies/{company}/groups");
    let found = [
        create("company", "/units", json!({ "typeKey": "company", "name": "X" })).await,
        create(
            "unit",
            "/units",
            json!({ "typeKey": "team", "name": "X", "parentId": department(&org, &company).await }),
        )
        .await,
        create("member", "/members", json!({ "companyId": company, "displayName": "X" })).await,
        create("position", &positions, json!({ "title": "X", "orgUnitId": company })).await,
        create("group", &groups, json!({ "name": "X" })).await,
    ];
    assert_eq!(found, ["company 409", "unit 409", "member 409", "position 422", "group 400"]);
}

async fn department(org: &Org, company: &str) -> String {
    let body = json!({ "typeKey": "department", "parentId": company, "code": "D", "name": "D" });
    made(&org.post(&format!("{ADMIN}/units"), body).await)
}
