//! Search: words of title and text, never more than the list shows.

use serde_json::json;

use crate::world::World;

async fn found(world: &World, who: usize, query: &str) -> Vec<String> {
    world
        .listed(who, query)
        .await
        .into_iter()
        .map(|line| line.split(':').next().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn words_of_the_text_are_found_in_any_case_as_phrases_and_by_absence() {
    let world = World::of(3).await;
    for (title, body) in [
        ("Travel", "Second class up to six hours, first class beyond."),
        ("Expenses", "Receipts within six weeks."),
        ("Ärger", "Überstunden und Reisekosten"),
    ] {
        let body = json!({ "title": title, "body": body });
        assert_eq!(world.ask(1, "POST", "/documents", Some(body)).await.status, 201);
    }
    for (q, expected) in [
        ("SIX", vec!["Expenses", "Travel"]),
        ("six%20hours", vec!["Travel"]),
        ("%22first%20class%22", vec!["Travel"]),
        ("%22class%20first%22", vec![]),
        ("six%20-receipts", vec!["Travel"]),
        ("travel%20or%20receipts", vec!["Expenses", "Travel"]),
        ("%C3%BCberstunden", vec!["Ärger"]),
        ("trav", vec!["Travel"]),
        ("'%22%29%28%26%7C%21%3A*", vec![]),
    ] {
        assert_eq!(found(&world, 1, &format!("q={q}")).await, expected, "{q}");
    }
}

#[tokio::test]
async fn the_current_text_is_searched_and_a_search_shows_no_more_than_the_list() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let change = json!({ "body": "the secret word is xylophone", "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", &document, "", Some(change)).await.status, 200);
    assert_eq!(found(&world, 1, "q=xylophone").await, ["Plan"]);
    assert!(found(&world, 1, "q=text").await.is_empty(), "of the version before");
    assert!(found(&world, 2, "view=visible&q=xylophone").await.is_empty());
    assert!(found(&world, 0, "view=all&q=xylophone").await.is_empty(), "managers do not read");
    assert_eq!(found(&world, 0, "view=all&q=plan").await, ["Plan"]);
    let group = world.group(&[]);
    let share = json!({ "groupId": group, "role": "viewer" });
    assert_eq!(world.on(1, "POST", &document, "/shares", Some(share)).await.status, 201);
    for is_in in [true, false, true] {
        let members = if is_in { vec![2] } else { vec![] };
        world.facts().groups.insert(group, members.into_iter().collect());
        let seen = found(&world, 2, "view=shared&q=xylophone").await;
        assert_eq!((seen.len() == 1, world.may_read(2, &document).await), (is_in, is_in));
    }
}

#[tokio::test]
async fn the_first_two_hundred_thousand_characters_are_searched() {
    let world = World::of(3).await;
    for (title, at) in [("Within", 199_990), ("Beyond", 200_001)] {
        let body = json!({ "title": title, "body": format!("{}needle", " ".repeat(at)) });
        assert_eq!(world.ask(1, "POST", "/documents", Some(body)).await.status, 201);
    }
    assert_eq!(found(&world, 1, "q=needle").await, ["Within"]);
}

#[tokio::test]
async fn a_search_finds_the_same_by_every_way_that_it_looks() {
    let world = World::of(4).await;
    let (one, other) = (&world.people[1], &world.people[2]);
    // Of 6,000 documents of one person's the other is shared every third with.
    let company = world.module.company;
    let made = "INSERT INTO docs.documents(id, company_id, title, current_version, owner_kc_sub, owner_member_id, state, updated_by)";
    world
        .module
        .execute(format!(
            "{made} SELECT md5('d' || g)::uuid, '{company}', 'Plan ' || g, 1, '{}', '{}', 'active', 'x'
               FROM generate_series(1, 6000) g;
             INSERT INTO docs.contents(document_id, company_id, title, body)
               SELECT md5('d' || g)::uuid, '{company}', 'Plan ' || g, 'all ' || CASE WHEN g % 5 = 0 THEN 'fifth ' ELSE '' END
                 || CASE WHEN g % 100 = 0 THEN 'rare' ELSE '' END FROM generate_series(1, 6000) g;
             INSERT INTO docs.document_counts VALUES ('{company}', 6000, 0, 0);
             INSERT INTO docs.shares(id, company_id, document_id, principal_kind, member_id, kc_sub, role, state, granted_by)
               SELECT gen_random_uuid(), '{company}', md5('d' || g)::uuid, 'member', '{}', '{}', 'viewer', 'active', 'x'
               FROM generate_series(3, 6000, 3) g",
            one.subject, one.member, other.member, other.subject
        ))
        .await;
    for (q, own, shared) in [
        ("rare", 60, 20),
        ("fifth", 1_200, 400),
        ("all", 6_000, 2_000),
        ("fifth%20-rare", 1_140, 380),
        ("all%20fifth", 1_200, 400),
        ("an%20599", 11, 3),
        ("Plan", 6_000, 2_000),
        ("nothing", 0, 0),
    ] {
        for (who, view, expected) in
            [(1, "mine", own), (1, "visible", own), (2, "shared", shared), (3, "visible", 0)]
        {
            let reply = world.ask(who, "GET", &format!("/documents?view={view}&q={q}"), None).await;
            assert_eq!(reply.data()["total"], expected, "{view} {q}");
        }
    }
}
