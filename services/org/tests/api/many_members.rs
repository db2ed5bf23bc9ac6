//! A company with a large number of members: the directory, a caller's companies and a subject's membership are read by
//! index. `ORG_MEMBERS=100000` tests the size that the platform promises, and its limits on the medians.

use std::time::{Duration, Instant};

use testkit::client::Call;

use crate::support::Org;

/// Members in `cargo test`.
const SOME: i64 = 20_000;
/// The size that the platform promises.
const PROMISED: i64 = 100_000;
const MEDIAN_LIMIT: Duration = Duration::from_millis(5);
/// Limit of searches for two letters, which match many members.
const SHORT_LIMIT: Duration = Duration::from_millis(50);
/// Requests per median.
const REQUESTS: usize = 200;

#[tokio::test]
async fn reads_of_a_large_company_are_served_by_indexes() {
    let members = std::env::var_os("ORG_MEMBERS")
        .map_or(SOME, |text| text.to_str().and_then(|text| text.parse().ok()).expect("a number"));
    let org = Org::start().await;
    let company = org.company("LARGE").await;
    let names = fill(&org, &company, members).await;
    plans(&org, &company, &names).await;
    let directory = format!("/internal/org/companies/{company}/members");
    let one = move |number: usize| i64::try_from(number).expect("a few") * 7_919 % members;
    let name = |number: usize| &names[number % names.len()];
    let measured = [
        ("directory, search by a name", median(&org, |n| format!("{directory}?q={}", name(n))).await),
        (
            "directory, search by five letters",
            median(&org, |n| format!("{directory}?q={}", &name(n)[2..7])).await,
        ),
        (
            "directory, search by two letters",
            median(&org, |n| format!("{directory}?q={}", &name(n)[n % 7 + 1..n % 7 + 3])).await,
        ),
        (
            "directory, search by e-mail",
            median(&org, |n| format!("{directory}?q={}{}@", name(n), n % REQUESTS)).await,
        ),
        ("directory, first page of all", median(&org, |_| directory.clone()).await),
        (
            "administration, first page of all",
            median(&org, |_| format!("/internal/org/admin/members?companyId={company}")).await,
        ),
        ("me/companies", median_of(own_companies(&org, one)).await),
        ("by-subject", median(&org, |n| format!("{directory}/by-kcsub/s{}", one(n))).await),
    ];
    println!("{members} members in one company, medians of {REQUESTS} requests at the service:");
    for (what, median) in measured {
        println!("  {what:<34} {:.2} ms", median.as_secs_f64() * 1_000.0);
        let limit = if what.ends_with("two letters") { SHORT_LIMIT } else { MEDIAN_LIMIT };
        assert!(members < PROMISED || median < limit, "{what}: {median:?}");
    }
    let found = org.get(&format!("{directory}?q={}42@example", names[42])).await;
    assert_eq!(
        (&found.data()["total"], &found.data()["items"][0]["hasLinkedUser"]),
        (&1.into(), &true.into())
    );
    for page in 1..=2 {
        let all = org.get(&format!("{directory}?page={page}&pageSize=100")).await;
        let shown = all.data()["items"].as_array().map(Vec::len);
        assert_eq!((&all.data()["total"], shown), (&members.into(), Some(100)), "page {page}");
    }
}

/// Texts that match many members and few, spread over the names or at their end, on near and far pages.
#[tokio::test]
async fn searches_of_a_large_company_show_every_match_once_by_name() {
    let org = Org::start().await;
    let company = org.company("LARGE").await;
    fill(&org, &company, 6_000).await;
    sqlx::query("UPDATE org.members SET display_name = 'zz ' || display_name WHERE code LIKE 'C1%'")
        .execute(&org.owner)
        .await
        .expect("names at the end");
    let directory = format!("/internal/org/companies/{company}/members");
    for (text, least) in [
        ("e", 6_000),
        ("ad", 700),
        ("kd", 100),
        ("zz", 1_100),
        ("z%20", 1_100),
        ("da%20k", 10),
        ("qq", 0),
        ("ADA", 700),
        ("1@example.test", 500),
        ("x@example.test", 0),
        ("test%20ex", 0),
    ] {
        let search = format!("%{}%", text.replace("%20", " "));
        let expected: Vec<(String, String)> = sqlx::query_as(
            "SELECT id::text, display_name FROM org.members WHERE company_id = $1::uuid
               AND (display_name ILIKE $2 OR email ILIKE $2) ORDER BY display_name COLLATE \"C\", id",
        )
        .bind(&company)
        .bind(search)
        .fetch_all(&org.owner)
        .await
        .expect("a scan");
        assert!(expected.len() >= least, "{text}: {}", expected.len());
        for (page, size) in [(1, 25), (2, 25), (1, 100), (3, 10), (11, 100), (40, 100), (61, 100)] {
            let reply = org.get(&format!("{directory}?q={text}&page={page}&pageSize={size}")).await;
            let shown = reply.data()["items"].as_array().cloned().unwrap_or_default();
            let shown: Vec<_> = shown.iter().map(|item| (&item["id"], &item["displayName"])).collect();
            let expected_here: Vec<_> = expected.iter().skip((page - 1) * size).take(size).collect();
            assert_eq!(reply.data()["total"], expected.len(), "{text}, page {page} of {size}");
            assert_eq!(shown.len(), expected_here.len(), "{text}, page {page} of {size}");
            for (shown, (id, name)) in shown.iter().zip(expected_here) {
                assert_eq!(
                    (shown.0, shown.1),
                    (&id.as_str().into(), &name.as_str().into()),
                    "{text}, page {page}"
                );
            }
        }
    }
}

/// Texts that more members have than a search shows: in every address, and in the first letters of few names.
#[tokio::test]
async fn a_search_shows_ten_thousand_matches_and_says_that_there_are_more() {
    const SHOWN: usize = 10_000;
    let org = Org::start().await;
    let company = org.company("LARGE").await;
    fill(&org, &company, 12_000).await;
    let directory = format!("/internal/org/companies/{company}/members");
    for text in ["e", ".t", "e.t", "example", "@example.test"] {
        let expected: Vec<String> = sqlx::query_scalar(
            "SELECT id::text FROM org.members WHERE company_id = $1::uuid ORDER BY display_name COLLATE \"C\", id LIMIT 10000",
        )
        .bind(&company)
        .fetch_all(&org.owner)
        .await
        .expect("a scan");
        for (page, size) in [(1, 25), (40, 100), (100, 100), (334, 30)] {
            let reply = org.get(&format!("{directory}?q={text}&page={page}&pageSize={size}")).await;
            assert_eq!(
                (&reply.data()["total"], reply.header("x-result-truncated")),
                (&SHOWN.into(), "true"),
                "{text}"
            );
            let shown = reply.data()["items"].as_array().cloned().unwrap_or_default();
            let shown: Vec<&str> = shown.iter().filter_map(|item| item["id"].as_str()).collect();
            let expected: Vec<_> = expected.iter().skip((page - 1) * size).take(size).collect();
            assert_eq!(shown, expected, "{text}, page {page} of {size}");
        }
        let past = org.get(&format!("{directory}?q={text}&page=101&pageSize=100")).await;
        assert_eq!(
            (&past.data()["items"], past.data()["total"].as_u64()),
            (&serde_json::json!([]), Some(10_000)),
            "{text}"
        );
    }
    for list in [format!("{directory}?"), format!("/internal/org/admin/members?companyId={company}&")] {
        let expected: Vec<String> = sqlx::query_scalar(
            "SELECT id::text FROM org.members WHERE company_id = $1::uuid ORDER BY display_name COLLATE \"C\", id",
        )
        .bind(&company)
        .fetch_all(&org.owner)
        .await
        .expect("a scan");
        for page in [1, 10, 11, 120, 121] {
            let reply = org.get(&format!("{list}page={page}&pageSize=100")).await;
            let shown = reply.data()["items"].as_array().cloned().unwrap_or_default();
            let shown: Vec<&str> = shown.iter().filter_map(|item| item["id"].as_str()).collect();
            let expected: Vec<_> = expected.iter().skip((page - 1) * 100).take(100).collect();
            assert_eq!(
                (shown, &reply.data()["total"]),
                (expected.iter().map(|id| id.as_str()).collect(), &12_000.into())
            );
        }
    }
    let rare = org.get(&format!("{directory}?q=ada%20")).await;
    assert_eq!((&rare.data()["total"], rare.header("x-result-truncated")), (&1_500.into(), ""));
}

/// Adds members with realistic variation in their names; returns the surnames of the first ones.
async fn fill(org: &Org, company: &str, members: i64) -> Vec<String> {
    sqlx::query(
        "INSERT INTO org.members(id, company_id, code, display_name, email, user_id)
         SELECT gen_random_uuid(), $1::uuid, 'C' || n,
                (ARRAY['Ada','Bob','Carol','Dave','Eve','Frank','Grace','Heidi'])[1 + n % 8] || ' ' || surname.text,
                surname.text || n || '@example.test', 's' || n
           FROM generate_series(0, $2 - 1) AS n,
        LATERAL (SELECT initcap(left(translate(md5(n::text), '0123456789', 'ghijklmnop'), 9)) AS text) AS surname",
    )
    .bind(company)
    .bind(members)
    .execute(&org.owner)
    .await
    .expect("members");
    sqlx::query("VACUUM (ANALYZE) org.members").execute(&org.owner).await.expect("statistics");
    sqlx::query_scalar(
        "SELECT split_part(display_name, ' ', 2) FROM org.members ORDER BY substr(code, 2)::int LIMIT $1",
    )
    .bind(i64::try_from(REQUESTS).expect("a few"))
    .fetch_all(&org.owner)
    .await
    .expect("names")
}

/// Checks PostgreSQL's plans of the service's statements.
async fn plans(org: &Org, company: &str, names: &[String]) {
    let statements = [
        (
            "search",
            "members_letters",
            "SELECT id, count(*) OVER () FROM (SELECT id, display_name FROM org.members
              WHERE company_id = $1::uuid AND is_active
                AND org.letters_and_pairs(display_name || E'\\n' || coalesce(email, '')) @>
                 ARRAY(SELECT pair FROM unnest(org.letters_and_pairs('$2')) AS pair WHERE char_length(pair) = 2)
                AND (display_name ILIKE '%$2%' OR email ILIKE '%$2%') LIMIT 10001) found
             ORDER BY display_name COLLATE \"C\", id LIMIT 25",
        ),
        (
            "two letters",
            "members_letters",
            "SELECT count(*) FROM (SELECT FROM org.members WHERE company_id = $1::uuid AND is_active
               AND org.letters_and_pairs(display_name || E'\\n' || coalesce(email, '')) @> ARRAY['ab'] LIMIT 10001) found",
        ),
        (
            "two letters, sorted",
            "members_letters",
            "SELECT id FROM (SELECT id, display_name FROM org.members WHERE company_id = $1::uuid AND is_active
               AND org.letters_and_pairs(display_name || E'\\n' || coalesce(email, '')) @> ARRAY['ab'] OFFSET 0) found
             ORDER BY display_name COLLATE \"C\", id LIMIT 25",
        ),
        (
            "two letters, by name",
            "members_directory",
            "SELECT id FROM (SELECT id, display_name, email FROM org.members WHERE company_id = $1::uuid AND is_active
               ORDER BY display_name COLLATE \"C\", id LIMIT 2000) named
             WHERE display_name ILIKE '%ab%' OR email ILIKE '%ab%' ORDER BY display_name COLLATE \"C\", id LIMIT 25",
        ),
        (
            "first page",
            "members_directory",
            "SELECT id, (SELECT active FROM org.member_counts WHERE company_id = $1::uuid)
               FROM (SELECT id, display_name FROM org.members WHERE company_id = $1::uuid AND is_active
                      ORDER BY display_name COLLATE \"C\", id LIMIT 100) m
             ORDER BY display_name COLLATE \"C\", id LIMIT 25",
        ),
        (
            "me/companies",
            "members_by_user",
            "SELECT c.id FROM org.members m JOIN org.units c ON c.id = m.company_id
              WHERE m.user_id = 's42' AND m.is_active AND c.is_active AND $1 <> ''",
        ),
        (
            "by-subject",
            "members_",
            "SELECT id, is_active FROM org.members WHERE company_id = $1::uuid AND user_id = 's42'",
        ),
    ];
    for (what, index, statement) in statements {
        let statement = statement.replace("$1", &format!("'{company}'")).replace("$2", &names[42]);
        let statement = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {statement}");
        let plan: Vec<String> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_all(&org.owner).await.expect("a plan");
        let plan = plan.join("\n");
        let line =
            |sign: &str| plan.lines().find(|line| line.contains(sign)).unwrap_or_default().trim().to_owned();
        println!("  {what}: {}; {}", line("org.members").max(line("members_")), line("Execution Time"));
        assert!(plan.contains(index), "{what}:\n{plan}");
        assert!(!plan.contains("Seq Scan on members"), "{what}:\n{plan}");
    }
}

/// Each subject requests its own companies with its own bearer, as the gateway forwards the request.
fn own_companies(org: &Org, one: impl Fn(usize) -> i64) -> Vec<Call> {
    let subjects = (0..REQUESTS).map(|number| format!("s{}", one(number)));
    let call = |subject: String| {
        let path = format!("/internal/org/me/companies?kcSub={subject}");
        org.api.get(path).bearer(&org.issuer.issue(&subject))
    };
    subjects.map(call).collect()
}

async fn median(org: &Org, path: impl Fn(usize) -> String) -> Duration {
    median_of((0..REQUESTS).map(|number| org.api.get(path(number)).bearer(&org.token)).collect()).await
}

async fn median_of(calls: Vec<Call>) -> Duration {
    let mut taken = Vec::with_capacity(calls.len());
    for call in calls {
        let started = Instant::now();
        let reply = call.send().await;
        taken.push(started.elapsed());
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    taken.sort_unstable();
    taken[taken.len() / 2]
}
