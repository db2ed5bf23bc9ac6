//! Search: words of title and text, never more than the list would show.

use std::fmt::Write;

use serde_json::json;
use uuid::Uuid;

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
    assert!(found(&world, 1, "q=text").await.is_empty(), "the previous version is not searched");
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
    // One person has 6,000 documents and shares every third with the other.
    let company = world.module.company;
    let made = "INSERT INTO docs.documents(id, company_id, title, body, current_version, owner_kc_sub, owner_member_id, state, updated_by)";
    world
        .module
        .execute(format!(
            "{made} SELECT md5('d' || g)::uuid, '{company}', 'Plan ' || g, 'all ' || CASE WHEN g % 5 = 0 THEN 'fifth ' ELSE '' END
                 || CASE WHEN g % 100 = 0 THEN 'rare' ELSE '' END, 1, '{}', '{}', 'active', 'x'
               FROM generate_series(1, 6000) g;
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

/// Documents of four people. One in three lies in one of sixteen folders, which form two chains of eight. They are
/// shared at random with members, a position and a group, directly and through their folder.
fn scattered(world: &World, position: Uuid, group: Uuid) -> String {
    let company = world.module.company;
    let person =
        |at: usize| format!("('{}'::uuid, '{}', {at})", world.people[at].member, world.people[at].subject);
    let people = (0..4).map(person).collect::<Vec<_>>().join(", ");
    let chance = |what: &str, of: u32| format!("abs(hashtext('{what}' || n) % {of})");
    format!(
        "CREATE TEMP TABLE people AS SELECT * FROM (VALUES {people}) AS p(member, subject, at);
         INSERT INTO docs.folders(id, company_id, name, parent_id, owner_kc_sub, owner_member_id, state)
           SELECT md5('f' || n)::uuid, '{company}', 'Folder ' || n, CASE WHEN n % 8 > 0 THEN md5('f' || n - 1)::uuid END,
             p.subject, p.member, 'active' FROM generate_series(0, 15) n JOIN people p ON p.at = {owner_of_folder};
         INSERT INTO docs.folder_ancestors SELECT '{company}', md5('f' || n)::uuid, md5('f' || a)::uuid, n - a
           FROM generate_series(0, 15) n, generate_series(n - n % 8, n) a;
         CREATE TEMP TABLE made AS SELECT n, md5('d' || n)::uuid AS id, p.member, p.subject,
             (ARRAY['Plan', 'plan of Autumn', 'Minutes', 'Ärger'])[1 + {title}] || ' ' || n AS title,
             CASE WHEN {words} < 9 THEN 'most ' ELSE '' END || CASE WHEN {words} % 5 = 0 THEN 'fifth part ' ELSE '' END
               || CASE WHEN {rare} = 0 THEN 'zeppelin' ELSE 'part fifth' END AS body
           FROM generate_series(1, 4000) n JOIN people p ON p.at = {owner};
         INSERT INTO docs.documents(id, company_id, title, body, current_version, owner_kc_sub, owner_member_id,
             general_access, is_template, folder_id, state, trashed_at, trashed_by, updated_at, updated_by)
           SELECT id, '{company}', title, body, 1, subject, member,
             CASE WHEN {open} = 0 THEN 'company_view' ELSE 'restricted' END, {template} = 0,
             CASE WHEN {lies} = 0 THEN md5('f' || {folder})::uuid END, CASE WHEN {trash} = 0 THEN 'trashed' ELSE 'active' END,
             CASE WHEN {trash} = 0 THEN now() END, CASE WHEN {trash} = 0 THEN 'x' END,
             now() - make_interval(mins => {when}), 'x' FROM made;
         INSERT INTO docs.document_counts SELECT '{company}', count(*) FILTER (WHERE state = 'active'),
           count(*) FILTER (WHERE state = 'active' AND general_access <> 'restricted'), count(*) FILTER (WHERE state = 'trashed')
           FROM docs.documents;
         INSERT INTO docs.shares(id, company_id, document_id, folder_id, principal_kind, member_id, position_id, group_id, kc_sub, role,
             next_role, state, granted_by)
           SELECT gen_random_uuid(), '{company}', CASE WHEN n <= 4000 THEN md5('d' || n)::uuid END,
             CASE WHEN n > 4000 THEN md5('f' || n - 4001)::uuid END, k.kind, CASE k.kind WHEN 'member' THEN p.member END,
             CASE k.kind WHEN 'position' THEN '{position}'::uuid END, CASE k.kind WHEN 'group' THEN '{group}'::uuid END,
             CASE k.kind WHEN 'member' THEN p.subject END, 'editor', CASE WHEN s.state = 'exchanging' AND {lower} = 0 THEN 'viewer' END,
             s.state, 'x'
           FROM generate_series(1, 4016) n CROSS JOIN unnest(ARRAY['member', 'position', 'group']) AS k(kind)
           CROSS JOIN LATERAL (SELECT (ARRAY['pending', 'active', 'active', 'active', 'revoking', 'exchanging'])
             [1 + abs(hashtext(k.kind || n) % 6)] AS state, abs(hashtext('shared' || k.kind || n) % 4) AS drawn) s
           JOIN people p ON p.at = {with} WHERE s.drawn = 0;",
        owner_of_folder = chance("folder owner", 4),
        title = chance("title", 4),
        words = chance("words", 10),
        rare = chance("rare", 300),
        owner = chance("owner", 4),
        open = chance("open", 40),
        template = chance("template", 9),
        lies = chance("lies", 3),
        folder = chance("folder", 16),
        trash = chance("trash", 20),
        when = chance("when", 2_000),
        lower = chance("lower", 2),
        with = chance("with", 4),
    )
}

/// The expected result, from a statement that reads every document of the company and applies each rule separately.
async fn plainly(
    world: &World,
    who: usize,
    (view, filter): (&str, &str),
    holds: (&[Uuid], &[Uuid]),
) -> Vec<Uuid> {
    let person = &world.people[who];
    let stands =
        "s.state <> 'pending' AND (s.next_role IS NULL OR s.role = 'viewer' OR s.next_role = 'editor')
        AND (s.member_id = $2 AND s.kc_sub = $1 OR s.position_id = ANY($3) OR s.group_id = ANY($4))";
    let own = "d.owner_kc_sub = $1";
    let reached = format!(
        "(d.general_access <> 'restricted' OR EXISTS (SELECT FROM docs.shares s WHERE s.document_id = d.id AND {stands})
          OR EXISTS (SELECT FROM docs.folder_ancestors a JOIN docs.shares s ON s.folder_id = a.ancestor_id
            WHERE a.folder_id = d.folder_id AND {stands})
          OR EXISTS (SELECT FROM docs.folder_ancestors a JOIN docs.folders f ON f.id = a.ancestor_id
            WHERE a.folder_id = d.folder_id AND f.owner_kc_sub = $1))"
    );
    let (state, seen) = match view {
        "mine" => ("active", own.to_owned()),
        "trash" => ("trashed", own.to_owned()),
        "shared" => ("active", format!("NOT {own} AND {reached}")),
        _ => ("active", format!("({own} OR {reached})")),
    };
    let sql = format!(
        "SELECT d.id FROM docs.documents d WHERE d.state = '{state}' AND {seen} AND {filter} ORDER BY d.updated_at DESC, d.id"
    );
    let found = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(&person.subject).bind(person.member);
    let found = found.bind(holds.0.to_vec()).bind(holds.1.to_vec());
    found.fetch_all(&world.module.database.owner_pool()).await.expect("an answer")
}

#[tokio::test]
async fn random_documents_are_found_as_by_looking_at_each() {
    let world = World::of(5).await;
    let (position, group) = (world.position(Some(1)), world.group(&[1, 2]));
    world.module.execute(scattered(&world, position, group)).await;
    let words = |q: &str| {
        let text = q.replace('\'', "''");
        format!(
            "(strpos(lower(d.title), lower('{text}')) > 0 OR d.search @@ websearch_to_tsquery('simple', '{text}'))"
        )
    };
    let folder = "md5('f3')::uuid";
    let mut asked: Vec<(String, String)> = Vec::new();
    for q in [
        "most",
        "fifth",
        "zeppelin",
        "\"fifth part\"",
        "fifth -most",
        "-most",
        "PLAN",
        "lan 12",
        "ärger",
        "nothing",
        "&",
    ] {
        asked.push((format!("q={}", encoded(q)), words(q)));
    }
    asked.push(("q=fifth&templates=true".to_owned(), format!("{} AND d.is_template", words("fifth"))));
    let id: Uuid = sqlx::query_scalar("SELECT md5('f3')::uuid")
        .fetch_one(&world.module.database.owner_pool())
        .await
        .expect("an id");
    asked.push((format!("q=most&folderId={id}"), format!("{} AND d.folder_id = {folder}", words("most"))));
    let mut found_at_all = 0;
    for who in 0..4 {
        let positions = if who == 1 { vec![position] } else { vec![] };
        let groups = if who == 1 || who == 2 { vec![group] } else { vec![] };
        for view in ["mine", "shared", "visible", "trash"] {
            for (query, filter) in &asked {
                let expected = plainly(&world, who, (view, filter), (&positions, &groups)).await;
                found_at_all += expected.len();
                for page in [1, 3] {
                    let tail = format!("/documents?view={view}&{query}&pageSize=50&page={page}");
                    let reply = world.ask(who, "GET", &tail, None).await;
                    assert_eq!(reply.status, 200, "{tail}: {}", reply.text);
                    let items = reply.data()["items"].as_array().expect("a list");
                    let found: Vec<Uuid> = items
                        .iter()
                        .map(|item| item["id"].as_str().expect("an id").parse().expect("a UUID"))
                        .collect();
                    let wanted: Vec<Uuid> = expected.iter().skip((page - 1) * 50).take(50).copied().collect();
                    assert_eq!(
                        (&reply.data()["total"], found),
                        (&json!(expected.len()), wanted),
                        "{who} {tail}"
                    );
                }
            }
        }
    }
    assert!(found_at_all > 10_000, "there was something to find: {found_at_all}");
}

/// A text of this many characters, of distinct words of this many letters that take four bytes each.
fn wide(characters: usize, letters: usize) -> String {
    let digits = |mut number: usize| {
        let letter =
            |digit: usize| char::from_u32(0x2_0000 + u32::try_from(digit).expect("small")).expect("a letter");
        std::iter::repeat_with(|| {
            let digit = number % 40_000;
            number /= 40_000;
            letter(digit)
        })
        .take(letters)
        .collect::<String>()
    };
    let mut text = String::new();
    for number in 1.. {
        text.push_str(&digits(number * 7_919));
        text.push(' ');
        if (letters + 1) * number >= characters {
            break;
        }
    }
    text.chars().take(characters).collect()
}

#[tokio::test]
async fn every_text_can_be_saved_whatever_its_words_are() {
    let world = World::of(3).await;
    let letter = |n: u32| char::from_u32(0x2_0000 + n % 40_000).expect("a letter");
    // Both parts of a word with a hyphen were words besides the whole.
    let hyphenated = (0..1_652_u32)
        .map(|n| {
            let part = |by: u32, step: u32| (0..60).map(|i| letter(n * by + i * step)).collect::<String>();
            format!("{}-{} ", part(37, 11), part(53, 17))
        })
        .collect::<Vec<_>>()
        .concat();
    let mut texts = vec![
        ("hyphenated", hyphenated),
        ("one word", letter(1).to_string().repeat(500_000)),
        ("words of 2,000 bytes", wide(200_000, 511)),
        (
            "digits and letters",
            (0..62_500).map(|n| format!("{}{}", n % 10, letter(n))).collect::<Vec<_>>().concat(),
        ),
        (
            "mixed",
            (0..100_000).map(|n| format!("{}e{}\u{301}", letter(n * 3), n % 7)).collect::<Vec<_>>().concat(),
        ),
        (
            "hosts",
            (0..14_000_u32).map(|n| format!("a{n:x}.co/{n:x}z{:x} ", n * 7_919)).collect::<Vec<_>>().concat(),
        ),
    ];
    for letters in [1, 2, 3, 4, 7] {
        texts.push(("short words", wide(500_000, letters)));
    }
    for (what, text) in texts {
        let title: String = wide(200, 1);
        let body = json!({ "title": title.trim_end(), "body": text });
        let made = world.ask(1, "POST", "/documents", Some(body)).await;
        assert_eq!(made.status, 201, "{what} of {} characters: {}", text.chars().count(), made.code());
        let id = made.data()["id"].as_str().expect("an id");
        let change = json!({ "title": "Another", "baseVersion": 1 });
        let changed = world.on(1, "PUT", id, "", Some(change)).await;
        assert_eq!((changed.status, &changed.data()["body"]), (200, &json!(text)), "{what}");
    }
}

async fn words_of(world: &World, document: &str) -> Vec<String> {
    let sql = format!(
        "SELECT lexeme FROM docs.documents, unnest(search) WHERE id = '{document}' AND lexeme NOT LIKE ':%' ORDER BY 1"
    );
    let found = sqlx::query_scalar(sqlx::AssertSqlSafe(sql));
    found.fetch_all(&world.module.database.owner_pool()).await.expect("an answer")
}

#[tokio::test]
async fn punctuation_separates_words_in_a_text_and_in_what_is_asked_for() {
    let world = World::of(3).await;
    let all: String = (' '..='~').filter(char::is_ascii_punctuation).collect();
    let text = "On server01.example.com see INC-123 in /var/log/syslog, <b>bold</b> and alice@example.org; \
        it's \u{201e}zitiert\u{201c}.";
    let texts = [
        ("Repeated", "a_".repeat(1_000)),
        ("Slashes", "./".repeat(1_000)),
        ("Every", all.chars().map(|sign| format!("x{sign}y ")).collect::<Vec<_>>().concat()),
        ("Note", text.to_owned()),
    ];
    let mut documents = Vec::new();
    for (title, body) in texts {
        let made = world.ask(1, "POST", "/documents", Some(json!({ "title": title, "body": body }))).await;
        assert_eq!(made.status, 201, "{}", made.text);
        documents.push(made.data()["id"].as_str().expect("an id").to_owned());
    }
    for (document, words) in
        documents.iter().zip([&["a", "repeated"][..], &["slashes"], &["every", "x", "y"]])
    {
        assert_eq!(words_of(&world, document).await, words);
    }
    for (q, is_found) in [
        ("server01.example.com", true),
        ("server01", true),
        ("example", true),
        ("com", true),
        ("example.com", true),
        ("server01.example.org", true),
        ("server02.example.com", false),
        ("INC-123", true),
        ("inc", true),
        ("123", true),
        ("-123", false),
        ("INC-124", false),
        ("/var/log/syslog", true),
        ("syslog", true),
        ("log", true),
        ("<b>bold</b>", true),
        ("bold", true),
        ("b", true),
        ("alice@example.org", true),
        ("alice", true),
        ("it's", true),
        ("\"var/log\"", true),
        ("\"log/var\"", false),
        ("\"in /var\"", true),
        ("bold -syslog", false),
        ("bold -/var", false),
        ("bold -/var/lib", true),
        ("bold -server01.example.com", false),
        ("bold -server02.example.com", true),
        ("bold -\"log var\"", true),
        ("bold -\"var log\"", false),
        ("bold - nothing", false),
        ("bold -", true),
        ("bold --", true),
        ("nothing or <bold>", true),
        ("bo", false),
    ] {
        let names = found(&world, 1, &format!("q={}", encoded(q))).await;
        assert_eq!(names.contains(&"Note".to_owned()), is_found, "{q}: {names:?}");
    }
    for q in ["...", "-", "\"", "--", "_", "''\"()&|!:*"] {
        assert_eq!(found(&world, 1, &format!("q={}", encoded(q))).await, [""; 0], "{q}");
    }
}

#[tokio::test]
async fn the_migrations_index_the_texts_that_there_are() {
    let world = World::of(3).await;
    let document = world.document(1, "Old one").await;
    let change = json!({ "body": "a_b host.example.com", "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", &document, "", Some(change)).await.status, 200);
    // What the sixth migration found, and what it left.
    let before =
        "CREATE TABLE docs.contents AS SELECT id AS document_id, company_id, title, body FROM docs.documents;
        ALTER TABLE docs.contents ADD COLUMN search tsvector NOT NULL GENERATED ALWAYS AS (
          setweight(to_tsvector('simple', title), 'A')
            || setweight(to_tsvector('simple', left(body, 200000)), 'B')) STORED;
        ALTER TABLE docs.documents DROP COLUMN search, DROP COLUMN body, DROP COLUMN folded_title;
        CREATE INDEX documents_of_owner ON docs.documents(id);
        CREATE INDEX documents_opened ON docs.documents(id);
        CREATE INDEX documents_of_folder ON docs.documents(id);
        CREATE INDEX documents_searched ON docs.documents(id);
        CREATE INDEX documents_listed ON docs.documents(id);
        DROP INDEX docs.documents_active;
        DROP INDEX docs.documents_trashed";
    world.module.execute(before.to_owned()).await;
    let old = format!(
        "SELECT count(*) FROM docs.contents WHERE document_id = '{document}'
           AND tsvector_to_array(search) = ARRAY['a', 'b', 'host.example.com', 'old', 'one']"
    );
    assert_eq!(world.count(&old).await, 1, "control");
    for version in [6, 10] {
        let migration = docs::BUNDLE.migrations.iter().find(|file| file.version == version);
        world.module.execute(migration.expect("the migration").sql.as_str().to_owned()).await;
    }
    assert_eq!(words_of(&world, &document).await, ["a", "b", "com", "example", "host", "old", "one"]);
    assert_eq!(found(&world, 1, "q=example").await, ["Old one"]);
    let read = world.on(1, "GET", &document, "", None).await;
    assert_eq!(read.data()["body"], "a_b host.example.com");
    let index = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'docs' AND indexname = 'documents_words'
        AND indexdef LIKE '%USING gin (search)'";
    assert_eq!(world.count(index).await, 1);
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").expect("text grows");
        encoded
    })
}
