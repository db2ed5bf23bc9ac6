//! Turns of companies and of their keys.

use super::*;

/// Makes these keys a company's.
async fn belong(owner: &PgPool, company: Uuid, tenants: &[Uuid]) {
    let sql = "UPDATE org.jobs SET company = $1 WHERE tenant = ANY($2)";
    sqlx::query(sql).bind(company).bind(tenants).execute(owner).await.expect("their company");
}

/// Adds ready jobs of a company: one for each of these numbers modulo `keys`, which makes so many keys.
async fn add_many(owner: &PgPool, company: Uuid, jobs: i32, keys: i32) {
    let sql = "INSERT INTO org.jobs(id, tenant, company, what, is_ready) \
               SELECT gen_random_uuid(), md5($1::uuid::text || n % $3)::uuid, $1::uuid, 'done', true FROM generate_series(1, $2) n";
    sqlx::query(sql).bind(company).bind(jobs).bind(keys).execute(owner).await.expect("ready jobs");
}

/// How many jobs each company got.
fn shares(claimed: &Claimed<Job>) -> BTreeMap<Uuid, usize> {
    let mut shares = BTreeMap::new();
    for job in &claimed.jobs {
        *shares.entry(job.lease.company).or_default() += 1;
    }
    shares
}

const ONE: Uuid = Uuid::from_u128(10);
const TWO: Uuid = Uuid::from_u128(20);
const THREE: Uuid = Uuid::from_u128(30);

#[tokio::test]
async fn a_company_with_ready_jobs_in_many_keys_delays_no_other_company() {
    let world = World::make().await;
    add_many(&world.owner, TWO, 1_600, 400).await;
    let mut ask = ask(8, 4);
    for other in [ONE, THREE] {
        // The other company comes before or after, and the claims of the backlog are anywhere in it.
        for _ in 0..3 {
            let claimed = claim(&world.doing.pool, &ask).await;
            assert_eq!(shares(&claimed), BTreeMap::from([(TWO, 8)]), "no other company has any");
            ask.position = claimed.position;
        }
        add_many(&world.owner, other, 1, 1).await;
        let claimed = claim(&world.doing.pool, &ask).await;
        assert_eq!(shares(&claimed), BTreeMap::from([(other, 1), (TWO, 7)]));
        ask.position = claimed.position;
    }
    world.service.end().await;
}

#[tokio::test]
async fn companies_take_turns_and_so_do_the_keys_of_each() {
    let world = World::make().await;
    for (company, keys) in [(ONE, 30), (TWO, 60), (THREE, 90)] {
        add_many(&world.owner, company, keys, keys).await;
    }
    let (mut ask, mut seen) = (ask(18, 4), BTreeSet::new());
    for round in 0..10 {
        // As other jobs of the first keys come in: they have had their turn.
        add_many(&world.owner, ONE, 30, 30).await;
        add_many(&world.owner, TWO, 60, 60).await;
        add_many(&world.owner, THREE, 90, 90).await;
        let claimed = claim(&world.doing.pool, &Ask { per_key: 1, ..ask.clone() }).await;
        assert_eq!(shares(&claimed), BTreeMap::from([(ONE, 6), (TWO, 6), (THREE, 6)]), "round {round}");
        seen.extend(claimed.jobs.iter().map(|job| (job.lease.company, job.lease.key)));
        ask.position = claimed.position;
    }
    let of = |company| seen.iter().filter(|(owner, _)| *owner == company).count();
    assert_eq!([of(ONE), of(TWO), of(THREE)], [30, 60, 60], "sixty turns each");
    world.service.end().await;
}

#[tokio::test]
async fn keys_that_may_start_no_job_hold_up_no_other_key_of_their_company_beside_a_long_backlog() {
    let world = World::make().await;
    let (busy, free): (Vec<_>, _) = ((1..=40).map(Uuid::from_u128).collect(), Uuid::from_u128(41));
    for key in busy.iter().chain([&free]) {
        add(&world.owner, *key, "done", "0 s").await;
    }
    for company in 100..120 {
        add_many(&world.owner, Uuid::from_u128(company), 400, 40).await;
    }
    let mut ask = Ask { running: vec![1; busy.len()], keys: busy, ..ask(20, 1) };
    // Three keys of each company at a time.
    for claims in 1..=14 {
        let claimed = claim(&world.doing.pool, &ask).await;
        assert_eq!(claimed.jobs.len(), 20, "the backlog is long");
        if claimed.jobs.iter().any(|job| job.lease.key == free) {
            return world.service.end().await;
        }
        ask.position = claimed.position;
        assert!(claims < 14, "{:?}", ask.position);
    }
}

#[tokio::test]
async fn turns_that_do_not_fit_into_a_claim_come_in_the_next() {
    let world = World::make().await;
    let companies: Vec<Uuid> = (1..=10).map(Uuid::from_u128).collect();
    for company in &companies {
        add_many(&world.owner, *company, 20, 20).await;
    }
    let mut ask = ask(7, 1);
    let mut shared: BTreeMap<Uuid, usize> = BTreeMap::new();
    for _ in 0..10 {
        let claimed = claim(&world.doing.pool, &ask).await;
        for (company, jobs) in shares(&claimed) {
            *shared.entry(company).or_default() += jobs;
        }
        ask.position = claimed.position;
    }
    assert_eq!(shared.into_values().collect::<Vec<_>>(), [7; 10]);
    world.service.end().await;
}

#[tokio::test]
async fn keys_take_turns_however_many_companies_have_a_backlog() {
    let world = World::make().await;
    // Two keys each; the first has a long backlog.
    let sql = "INSERT INTO org.jobs(id, tenant, company, what, is_ready) \
               SELECT gen_random_uuid(), md5(c || ' ' || (n = 9))::uuid, md5(c::text)::uuid, 'done', true \
                 FROM generate_series(1, 1100) c, generate_series(1, 9) n";
    sqlx::query(sql).execute(&world.owner).await.expect("nine jobs each");
    let mut ask = Ask { per_key: 1, ..ask(50, 1) };
    let mut seen = BTreeSet::new();
    for _ in 0..44 {
        let claimed = claim(&world.doing.pool, &ask).await;
        assert_eq!(claimed.jobs.len(), 50);
        seen.extend(claimed.jobs.iter().map(|job| job.lease.key));
        ask.position = claimed.position;
    }
    assert_eq!(seen.len(), 2_200, "each key has had one turn");
    world.service.end().await;
}

#[tokio::test]
async fn a_claim_takes_no_job_of_a_full_company() {
    let world = World::make().await;
    let keys: Vec<Uuid> = (1..=4).map(Uuid::from_u128).collect();
    let mut jobs = Vec::new();
    for key in &keys {
        jobs.push(add(&world.owner, *key, "done", "0 s").await);
    }
    belong(&world.owner, ONE, &[keys[0], keys[2]]).await;
    belong(&world.owner, TWO, &[keys[1], keys[3]]).await;
    let without = async |full: Vec<Uuid>| {
        let claimed = claim(&world.doing.pool, &Ask { full, ..ask(10, 4) }).await;
        assert!(!claimed.is_partial, "every company with ready jobs was examined");
        claimed.jobs.iter().map(|job| (job.lease.id, job.lease.company)).collect::<Vec<_>>()
    };
    assert!(without(vec![TWO, ONE]).await.is_empty());
    assert_eq!(without(vec![ONE, THREE]).await, [(jobs[1], TWO), (jobs[3], TWO)]);
    assert_eq!(without(Vec::new()).await, [(jobs[0], ONE), (jobs[2], ONE)], "control");
    let tenants = JobTable { company: "tenant", ..JOBS };
    for key in &keys {
        add(&world.owner, *key, "done", "0 s").await;
    }
    let asked = Ask { full: keys[1..].to_vec(), ..ask(10, 4) };
    let claimed: Claimed<Job> = tenants.claim(&world.doing.pool, GROUP, asked).await.expect("a claim");
    let taken: Vec<_> = claimed.jobs.iter().map(|job| (job.lease.key, job.lease.company)).collect();
    assert_eq!(taken, [(keys[0], keys[0])], "where the key is the company");
    world.service.end().await;
}

#[tokio::test]
async fn keys_that_may_start_no_job_are_passed_in_bounded_steps() {
    let world = World::make().await;
    let busy = async |keys: i32| {
        sqlx::query("DELETE FROM org.jobs").execute(&world.owner).await.expect("none is left");
        add_many(&world.owner, ONE, keys, keys).await;
        let all = "SELECT DISTINCT tenant FROM org.jobs";
        let all: Vec<Uuid> = sqlx::query_scalar(all).fetch_all(&world.owner).await.expect("the keys");
        Ask { running: vec![4; all.len()], keys: all, ..ask(4, 4) }
    };
    let taken = async |ask: &Ask| {
        let claimed = claim(&world.doing.pool, ask).await;
        (claimed.jobs.len(), claimed.is_partial)
    };
    assert_eq!(taken(&busy(64).await).await, (0, false), "64 keys are one step");
    let many = busy(300).await;
    assert_eq!(taken(&many).await, (0, true), "300 keys are more than one");
    let full = Ask { full: vec![ONE], ..many };
    assert_eq!(taken(&full).await, (0, false), "those of a full company are one");
    world.service.end().await;
}
