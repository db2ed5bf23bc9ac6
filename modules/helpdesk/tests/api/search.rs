//! Search: words, filters, pages, and what the caller may see.

use serde_json::json;
use testkit::Reply;

use crate::world::{AGENT, ALICE, BOB, EVE, Name, World};

async fn found(world: &World, who: Name, query: &str) -> Vec<String> {
    let reply = world.ask(who, "GET", &format!("/tickets/search?{query}"), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    titles(&reply)
}

fn titles(reply: &Reply) -> Vec<String> {
    let items = reply.data()["items"].as_array().expect("items");
    items.iter().map(|item| item["title"].as_str().expect("a title").to_owned()).collect()
}

async fn open(world: &World, who: Name, title: &str, description: &str, priority: &str) -> String {
    let body = json!({ "title": title, "description": description, "priority": priority });
    crate::world::id(&world.ask(who, "POST", "/tickets", Some(body)).await)
}

async fn some() -> (World, [String; 4]) {
    let world = World::start().await;
    let printer = open(&world, ALICE, "The printer is on fire", "Room 4.12, it's smoking", "urgent").await;
    let printers = open(&world, BOB, "Two printers for sale", "as good as new", "low").await;
    let mail = open(&world, ALICE, "No mail", "mail.example.com does not answer", "normal").await;
    let odd = open(&world, EVE, "\u{dc}n\u{ef}c\u{f6}d\u{e9}", "a-b_c & | ! ( :* '", "normal").await;
    (world, [printer, printers, mail, odd])
}

#[tokio::test]
async fn every_word_must_be_there_or_begin_one_that_is() {
    let (world, _) = some().await;
    for (query, expected) in [
        ("q=printer", vec!["Two printers for sale", "The printer is on fire"]),
        ("q=PRINTER%20fire", vec!["The printer is on fire"]),
        ("q=printer%20mail", vec![]),
        ("q=example", vec!["No mail"]),
        ("q=xample", vec![]),
        ("q=mail.example", vec!["No mail"]),
        ("q=it%27s", vec!["The printer is on fire"]),
        ("q=%C3%BCn%C3%AFc", vec!["\u{dc}n\u{ef}c\u{f6}d\u{e9}"]),
        ("q=3", vec!["No mail"]),
        ("q=%233", vec!["No mail"]),
        ("q=%26%20%7C%20%21", vec![]),
        ("q=%3A%2A%27%5C", vec![]),
        (
            "q=",
            vec!["\u{dc}n\u{ef}c\u{f6}d\u{e9}", "No mail", "Two printers for sale", "The printer is on fire"],
        ),
    ] {
        assert_eq!(found(&world, AGENT, query).await, expected, "{query}");
    }
}

const JOINED: &str =
    "INC-123 server01.example.com:8443 /var/log/syslog <b title='x'>bold</b> snake_case a@b.example";

#[tokio::test]
async fn a_ticket_is_found_by_every_part_of_what_punctuation_joins_and_by_the_whole() {
    let world = World::start().await;
    open(&world, ALICE, "Joined", JOINED, "normal").await;
    for query in [
        "123",
        "INC-123",
        "example",
        "server01.example.com",
        "8443",
        "syslog",
        "%2Fvar%2Flog",
        "bold",
        "%3Cb%3E",
        "case",
        "snake_case",
        "a%40b",
    ] {
        assert_eq!(found(&world, AGENT, &format!("q={query}")).await, ["Joined"], "{query}");
    }
    assert_eq!(found(&world, AGENT, "q=server02.example.com").await, [""; 0], "control");
}

/// PostgreSQL's parser would read these characters again for each of them.
#[tokio::test]
async fn a_text_of_punctuation_and_letters_is_its_words() {
    let world = World::start().await;
    open(&world, ALICE, "Hostile", &"a_".repeat(10_000), "normal").await;
    let words = "SELECT length(words) FROM helpdesk.ticket_words";
    assert_eq!(
        world.count(&format!("SELECT ({words})::bigint")).await,
        3,
        "its number, its title's word and `a`"
    );
    assert_eq!(found(&world, AGENT, "q=a_a").await, ["Hostile"]);
}

#[tokio::test]
async fn filters_by_status_priority_and_assignee() {
    let (world, [printer, printers, mail, _]) = some().await;
    let (desk, group) = (world.position("Desk", Some(BOB)), world.group("Line", &[BOB]));
    let bob = world.people[BOB].member;
    world.assign(AGENT, &printer, json!({ "assigneeMemberId": bob })).await;
    world.assign(AGENT, &printers, json!({ "assigneePositionId": desk })).await;
    world.assign(AGENT, &mail, json!({ "assigneeGroupId": group })).await;
    world.move_to(AGENT, &mail, "resolved").await;
    let all = ["No mail", "Two printers for sale", "The printer is on fire"];
    for (who, query, expected) in [
        (AGENT, "status=resolved".to_owned(), vec!["No mail"]),
        (AGENT, "priority=urgent".to_owned(), vec!["The printer is on fire"]),
        (AGENT, "assignee=none".to_owned(), vec!["\u{dc}n\u{ef}c\u{f6}d\u{e9}"]),
        (AGENT, format!("assignee={desk}"), vec!["Two printers for sale"]),
        (AGENT, format!("assignee={group}&q=mail"), vec!["No mail"]),
        (AGENT, "assignee=me".to_owned(), vec![]),
        (BOB, "assignee=me".to_owned(), all.to_vec()),
        (BOB, format!("assignee={bob}&priority=urgent&status=open&q=fire"), vec!["The printer is on fire"]),
        (BOB, "assignee=me&status=closed".to_owned(), vec![]),
    ] {
        assert_eq!(found(&world, who, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_search_finds_what_a_list_shows_and_nothing_more() {
    let (world, [_, printers, ..]) = some().await;
    assert_eq!(found(&world, ALICE, "").await, ["No mail", "The printer is on fire"]);
    assert_eq!(found(&world, ALICE, "q=printer").await, ["The printer is on fire"]);
    assert_eq!(found(&world, EVE, "q=printer").await, [""; 0]);
    let desk = world.position("Desk", Some(EVE));
    world.assign(AGENT, &printers, json!({ "assigneePositionId": desk })).await;
    assert_eq!(found(&world, EVE, "q=printer").await, ["Two printers for sale"]);
    world.hold(desk, None);
    assert_eq!(found(&world, EVE, "q=printer").await, [""; 0]);
    let asked = world.module.questions();
    let work = asked.iter().filter(|question| question["featureKey"] == "helpdesk.tickets.work");
    assert!(work.clone().count() > 0 && work.clone().all(|question| question["probe"] == true), "no denial");
}

/// Inserts tickets of ALICE with these numbers, in the order of their last changes. All contain the word `ticket`,
/// every sixth the word `sixth`, the first 6,000 the word `early`; every fifth is urgent, every hundredth has low
/// priority.
pub(crate) async fn fill(world: &World, from: u32, to: u32) {
    let (company, alice) = (world.module.company, world.people[ALICE].member);
    let rows = format!(
        "INSERT INTO helpdesk.tickets(id, company_id, number, title, description, priority, reporter_member_id,
           reporter_kc_sub, updated_at)
         SELECT md5(n::text)::uuid, '{company}', n, 'Ticket ' || n, CASE WHEN n % 6 = 0 THEN 'sixth' ELSE '' END
             || CASE WHEN n <= 6000 THEN ' early' ELSE '' END,
           CASE WHEN n % 100 = 0 THEN 'low' WHEN n % 5 = 0 THEN 'urgent' ELSE 'normal' END, '{alice}', 's',
           '2026-01-01'::timestamptz + make_interval(secs => n) FROM generate_series({from}, {to}) n"
    );
    let words = format!(
        "INSERT INTO helpdesk.ticket_words(ticket_id, company_id, number, words)
         SELECT t.id, t.company_id, t.number, array_to_tsvector(ARRAY(
             SELECT right(t.company_id::text, 8) || '.' || to_hex(t.number / 4096) || '.' || lexeme
               FROM unnest(to_tsvector('simple', t.number || ' ' || t.title || ' ' || t.description))))
           FROM helpdesk.tickets t WHERE t.number BETWEEN {from} AND {to}"
    );
    let count = format!(
        "INSERT INTO helpdesk.ticket_counters VALUES ('{company}', {to})
         ON CONFLICT (company_id) DO UPDATE SET last_number = {to}"
    );
    for sql in [rows, words, count] {
        world.module.execute(sql).await;
    }
}

#[tokio::test]
async fn a_word_is_found_wherever_it_stands_among_many_tickets() {
    let world = World::start().await;
    fill(&world, 1, 13_000).await;
    // The caller, the query, the total, and the newest and oldest result.
    for (who, query, total, newest, oldest) in [
        (AGENT, "q=ticket", 1_000, 13_000, 12_001),
        (AGENT, "q=sixth", 1_000, 12_996, 7_002),
        (AGENT, "q=ticket%20sixth%2012996", 1, 12_996, 12_996),
        (AGENT, "q=1", 1, 1, 1),
        (AGENT, "q=4096", 1, 4_096, 4_096),
        // Few tickets pass the filter.
        (AGENT, "q=ticket&priority=low", 130, 13_000, 100),
        (AGENT, "q=sixth&priority=low", 43, 12_900, 300),
        // Many tickets pass, and all of them contain the word.
        (AGENT, "q=ticket&priority=urgent", 1_000, 12_995, 7_740),
        (ALICE, "q=ticket", 1_000, 13_000, 12_001),
        // All of a filter's tickets are few.
        (ALICE, "q=sixth&priority=low", 43, 12_900, 300),
        (BOB, "q=ticket", 0, 0, 0),
    ] {
        let page = async |page: i64| {
            world.ask(who, "GET", &format!("/tickets/search?{query}&pageSize=10&page={page}"), None).await
        };
        let first = page(1).await;
        assert_eq!(first.data()["total"], total, "{query}");
        assert_eq!(first.header("x-result-truncated"), if total == 1_000 { "true" } else { "" }, "{query}");
        let last = page(first.data()["totalPages"].as_i64().expect("a number").max(1)).await;
        let ends = (titles(&first).first().cloned(), titles(&last).last().cloned());
        let expected = [newest, oldest].map(|number| (total > 0).then(|| format!("Ticket {number}")));
        assert_eq!(ends, expected.into(), "{query}");
    }
}

#[tokio::test]
async fn a_search_that_does_not_look_at_every_ticket_says_so() {
    let world = World::start().await;
    fill(&world, 1, 12_000).await;
    // 6,000 tickets have the word and 9,600 pass the filter; of the newest 5,001 of these, 201 have the word.
    let reply = world.ask(AGENT, "GET", "/tickets/search?q=early&priority=normal", None).await;
    assert_eq!((&reply.data()["total"], reply.header("x-result-truncated")), (&json!(201), "true"));
    assert_eq!(titles(&reply).first().map(String::as_str), Some("Ticket 5999"));
    // 2,000 tickets have the word, here and there, and 2,280 pass the filter; 270 of the newest 1,500 with the word do.
    let reply = world.ask(AGENT, "GET", "/tickets/search?q=sixth&priority=urgent", None).await;
    assert_eq!((&reply.data()["total"], reply.header("x-result-truncated")), (&json!(270), "true"));
    assert_eq!(titles(&reply).first().map(String::as_str), Some("Ticket 11970"));
    // Callers who search their own tickets search the newest 5,001, whatever else the company has.
    let reply = world.ask(ALICE, "GET", "/tickets/search?q=sixth", None).await;
    assert_eq!((&reply.data()["total"], reply.header("x-result-truncated")), (&json!(834), "true"));
    let reply = world.ask(ALICE, "GET", "/tickets/search?q=sixth&priority=low", None).await;
    assert_eq!((&reply.data()["total"], reply.header("x-result-truncated")), (&json!(40), ""));
    // Without the filter, no ticket is skipped.
    let reply = world.ask(AGENT, "GET", "/tickets/search?q=early", None).await;
    assert_eq!(&reply.data()["total"], 1_000);
    assert_eq!(titles(&reply).first().map(String::as_str), Some("Ticket 6000"));
}

#[tokio::test]
async fn one_subject_has_four_lists_and_searches_at_once_and_others_their_own() {
    let world = World::start().await;
    let context = format!("/internal/org/companies/{}/members/by-kcsub/*", world.module.company);
    world.module.org.hang("GET", &context);
    let asked = (0..6).map(|at| {
        let tail = if at % 2 == 0 { "/tickets/search" } else { "/tickets" };
        world.ask(ALICE, "GET", tail, None)
    });
    let statuses: Vec<u16> =
        futures_util::future::join_all(asked).await.iter().map(|reply| reply.status).collect();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!((refused, statuses.len()), (2, 6), "{statuses:?}");
    world.answer_as_org();
    for who in [ALICE, BOB] {
        assert_eq!(world.ask(who, "GET", "/tickets/search", None).await.status, 200, "control");
    }
}

#[tokio::test]
async fn pages_hold_the_newest_thousand_and_say_when_there_are_more() {
    let world = World::start().await;
    fill(&world, 1, 1_000).await;
    for query in ["", "q=ticket&"] {
        let ask = async |page: u32| {
            world.ask(AGENT, "GET", &format!("/tickets/search?{query}pageSize=100&page={page}"), None).await
        };
        let last = ask(10).await;
        assert_eq!((last.data()["total"].as_i64(), last.header("x-result-truncated")), (Some(1_000), ""));
        assert_eq!(titles(&last).last().map(String::as_str), Some("Ticket 1"));
        let past = ask(11).await;
        assert_eq!((titles(&past).len(), &past.data()["total"]), (0, &json!(1_000)));
    }
    fill(&world, 1_001, 1_003).await;
    for query in ["", "q=ticket&"] {
        let tail = format!("/tickets/search?{query}pageSize=100&page=10");
        let cut = world.ask(AGENT, "GET", &tail, None).await;
        assert_eq!((cut.data()["total"].as_i64(), cut.header("x-result-truncated")), (Some(1_000), "true"));
        assert_eq!((titles(&cut).len(), titles(&cut).last().map(String::as_str)), (100, Some("Ticket 4")));
        let past = format!("/tickets/search?{query}pageSize=100&page=11");
        let past = world.ask(AGENT, "GET", &past, None).await;
        assert_eq!(titles(&past).len(), 0, "a page past the counted results is empty");
    }
}

#[tokio::test]
async fn every_wrong_value_is_told_at_once() {
    let world = World::start().await;
    let long = "x".repeat(201);
    let query = format!("q={long}&status=done&priority=soon&assignee=you&page=0&pageSize=101");
    let reply = world.ask(AGENT, "GET", &format!("/tickets/search?{query}"), None).await;
    let wrong =
        ["q length", "status enum", "priority enum", "assignee assignee", "page range", "pageSize range"];
    assert_eq!(reply.wrong_fields(), wrong);
    let longest = format!("/tickets/search?q={}", "x".repeat(200));
    assert_eq!(world.ask(AGENT, "GET", &longest, None).await.status, 200);
}
