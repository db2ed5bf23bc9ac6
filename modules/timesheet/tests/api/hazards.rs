//! Every row of the design's table of concurrency hazards, each provoked [`testkit::races`] times over real
//! connections; the module uses several at once. Each round has its own week or day, so rounds are independent.

use futures_util::future::join_all;
use serde_json::json;
use testkit::Reply;

use crate::support::{day_of, monday, reason};
use crate::world::{World, id};

/// How often each hazard is provoked.
fn rounds() -> i64 {
    i64::try_from(testkit::races()).expect("a small number")
}

/// An administrator, two members, and an approver of any week.
async fn company() -> World {
    let world = World::of(&[&["admin"], &[], &[], &["approver"]]).await;
    assert_eq!(world.rules(json!({ "allowedPreviousWeeks": 520 })).await.status, 200);
    world
}

/// The statuses and codes of the responses, sorted; any other than these fails the round.
fn words(replies: &[&Reply]) -> Vec<String> {
    let word = |reply: &Reply| match reply.status {
        200 | 201 => "done".to_owned(),
        409 => reply.code().to_owned(),
        403 | 422 => reason(reply).to_owned(),
        _ => panic!("{} {}", reply.status, reply.text),
    };
    let mut words: Vec<String> = replies.iter().map(|reply| word(reply)).collect();
    words.sort();
    words
}

#[tokio::test]
async fn double_submit() {
    let world = company().await;
    for round in 0..rounds() {
        let week = monday(-round);
        let replies = join_all((0..3).map(|_| world.submit(1, &week))).await;
        let replies: Vec<&Reply> = replies.iter().collect();
        assert_eq!(words(&replies), ["SUBMISSION_PENDING", "SUBMISSION_PENDING", "done"], "round {round}");
    }
    world.submissions_are_whole().await;
    let made = world.count("SELECT count(*) FROM timesheet.submissions".to_owned()).await;
    let told = "SELECT count(*) FROM audit.timesheet__events WHERE action = 'submission.submitted'";
    assert_eq!((made, world.count(told.to_owned()).await), (rounds(), rounds()));
}

#[tokio::test]
async fn an_entry_written_while_the_week_is_submitted() {
    let world = company().await;
    let web = world.project("WEB").await;
    for round in 0..rounds() {
        let (week, day) = (monday(-round), day_of(-round, 3));
        let whole = json!({ "weekStart": week, "entries": [
            { "projectId": web, "entryDate": day, "realHours": 3 }] });
        let (entry, made, saved) = tokio::join!(
            world.put(1, &web, &day, 2.0, 1.0),
            world.submit(1, &week),
            world.ask(1, "PUT", "/time-entries/week", Some(whole)),
        );
        assert_eq!(made.status, 201, "{}", made.text);
        for reply in [entry, saved] {
            assert!(reply.status == 200 || reply.code() == "WEEK_LOCKED", "{}", reply.text);
        }
    }
    // After a submission, the week's hours never change.
    let different = "SELECT count(*) FROM timesheet.submissions s
        FULL JOIN (SELECT member_id, week_start, array_agg((project_id, entry_date, real_hours, billable_hours)
          ORDER BY project_id, entry_date) AS held
          FROM timesheet.entries GROUP BY 1, 2) e ON (e.member_id, e.week_start) = (s.member_id, s.week_start)
        LEFT JOIN (SELECT submission_id, array_agg((project_id, entry_date, real_hours, billable_hours)
          ORDER BY project_id, entry_date) AS held
          FROM timesheet.submission_entries GROUP BY 1) h ON h.submission_id = s.id
        WHERE h.held IS DISTINCT FROM e.held";
    assert_eq!(world.count(different.to_owned()).await, 0);
    world.submissions_are_whole().await;
}

#[tokio::test]
async fn two_approvers_and_the_member_decide_at_once() {
    let world = company().await;
    world.assign(1, 2).await;
    for round in 0..rounds() {
        let made = id(&world.submit(1, &monday(-round)).await);
        let (first, second, own) = tokio::join!(
            world.step(2, &made, "approve"),
            world.step(3, &made, "reject"),
            world.step(1, &made, "revert"),
        );
        let won = [&first, &second, &own].iter().filter(|reply| reply.status == 200).count();
        assert_eq!(won, 1, "{} {} {}", first.text, second.text, own.text);
        words(&[&first, &second, &own]);
    }
    let told = "SELECT count(*) FROM audit.timesheet__events
        WHERE action IN ('submission.approved', 'submission.rejected', 'submission.reverted')";
    assert_eq!(world.count(told.to_owned()).await, rounds(), "one audit row each");
    world.submissions_are_whole().await;
}

#[tokio::test]
async fn day_sums_under_parallel_writes() {
    let world = company().await;
    let [web, app, ops] = [world.project("A").await, world.project("B").await, world.project("C").await];
    for round in 0..rounds() {
        let (day, week) = (day_of(-round, 2), monday(-round));
        let whole = json!({ "weekStart": week, "entries": [
            { "projectId": ops, "entryDate": day, "realHours": 14, "billableHours": 5 }] });
        let (left, right, saved) = tokio::join!(
            world.put(1, &web, &day, 13.0, 5.0),
            world.put(1, &app, &day, 12.0, 5.0),
            world.ask(1, "PUT", "/time-entries/week", Some(whole)),
        );
        assert_eq!(saved.status, 200, "saving the whole week drops the rest: {}", saved.text);
        let done = [&left, &right].iter().filter(|reply| reply.status == 200).count();
        assert!(done <= 1, "{} {}", left.text, right.text);
        words(&[&left, &right]);
    }
    let over = "SELECT count(*) FROM (SELECT 1 FROM timesheet.entries GROUP BY member_id, entry_date
        HAVING sum(real_hours) > 24 OR sum(billable_hours) > 8) AS days";
    assert_eq!(world.count(over.to_owned()).await, 0);
}

#[tokio::test]
async fn a_revert_of_an_approved_week_and_its_resubmission() {
    let world = company().await;
    world.assign(1, 2).await;
    for round in 0..rounds() {
        let week = monday(-round);
        let made = id(&world.submit(1, &week).await);
        assert_eq!(world.step(2, &made, "approve").await.status, 200);
        let (taken, again) = tokio::join!(world.step(2, &made, "revert"), world.submit(1, &week));
        assert_eq!(taken.status, 200, "{}", taken.text);
        let version = again.data()["versionNumber"].as_i64();
        assert!(again.code() == "SUBMISSION_APPROVED" || version == Some(2), "{}", again.text);
    }
    world.submissions_are_whole().await;
}

#[tokio::test]
async fn a_withdrawal_and_a_resubmission() {
    let world = company().await;
    for round in 0..rounds() {
        let week = monday(-round);
        let made = id(&world.submit(1, &week).await);
        let (taken, again, twice) =
            tokio::join!(world.step(1, &made, "revert"), world.submit(1, &week), world.submit(1, &week));
        assert_eq!(taken.status, 200, "{}", taken.text);
        let done = [&again, &twice].iter().filter(|reply| reply.status == 201).count();
        assert!(done <= 1, "{} {}", again.text, twice.text);
        let others = [&again, &twice].iter().filter(|reply| reply.code() == "SUBMISSION_PENDING").count();
        assert_eq!(done + others, 2, "{} {}", again.text, twice.text);
    }
    world.submissions_are_whole().await;
}

#[tokio::test]
async fn settings_tightened_during_a_write() {
    let world = company().await;
    let web = world.project("WEB").await;
    let mut written = 0;
    for round in 0..rounds() {
        let free = json!({ "enforceBillableWithinActual": false });
        assert_eq!(world.rules(free).await.status, 200);
        let (day, week) = (day_of(-round, 1), monday(-round));
        let tight = world.rules(json!({ "enforceBillableWithinActual": true }));
        let (entry, tightened) = tokio::join!(world.put(1, &web, &day, 1.0, 5.0), tight);
        assert_eq!(tightened.status, 200);
        let made = world.submit(1, &week).await;
        // Whichever came first, a week that breaks the current rules is not submitted.
        if entry.status == 200 {
            written += 1;
            assert_eq!((made.status, reason(&made)), (422, "BILLABLE_EXCEEDS_ACTUAL"));
        } else {
            assert_eq!((entry.status, reason(&entry)), (422, "BILLABLE_EXCEEDS_ACTUAL"));
            assert_eq!(made.status, 201, "{}", made.text);
        }
    }
    let wrong = "SELECT count(*) FROM timesheet.submission_entries WHERE billable_hours > real_hours";
    assert_eq!(world.count(wrong.to_owned()).await, 0, "{written} writes came first");
    let stored = world.count("SELECT count(*) FROM timesheet.entries".to_owned()).await;
    assert_eq!(stored, written);
}

#[tokio::test]
async fn a_race_for_a_project_code() {
    let world = company().await;
    let other = world.project("OTHER").await;
    for round in 0..rounds() {
        let body = || Some(json!({ "code": format!("P{round}"), "name": "n" }));
        let renamed = format!("/projects/{other}");
        let (left, right, moved) = tokio::join!(
            world.ask(0, "POST", "/projects", body()),
            world.ask(0, "POST", "/projects", body()),
            world.ask(0, "PUT", &renamed, body()),
        );
        let expected = ["PROJECT_CODE_TAKEN", "PROJECT_CODE_TAKEN", "done"];
        assert_eq!(words(&[&left, &right, &moved]), expected, "round {round}");
    }
}

#[tokio::test]
async fn an_approver_reassigned_during_a_decision() {
    let world = company().await;
    let (bob, eve) = (world.people[2].member, world.people[0].member);
    for round in 0..rounds() {
        world.assign(1, 2).await;
        let made = id(&world.submit(1, &monday(-round)).await);
        let (decided, moved) = tokio::join!(world.step(2, &made, "approve"), world.assign(1, 0));
        assert_eq!(moved.status, 200, "{}", moved.text);
        let held = format!(
            "SELECT count(*) FROM timesheet.submissions WHERE id = '{made}' AND (status, assigned_approver_member_id)
             = ('{}', '{}')",
            if decided.status == 200 { "approved" } else { "submitted" },
            if decided.status == 200 { bob } else { eve },
        );
        assert_eq!(world.count(held).await, 1, "{}", decided.text);
        assert!(decided.status == 200 || reason(&decided) == "NOT_APPROVER", "{}", decided.text);
    }
    world.submissions_are_whole().await;
}

#[tokio::test]
async fn an_approver_reassigned_during_a_submission() {
    let world = company().await;
    for round in 0..rounds() {
        let (from, to) = if round % 2 == 0 { (2, 3) } else { (3, 2) };
        world.assign(1, from).await;
        let week = monday(-round);
        let (made, moved) = tokio::join!(world.submit(1, &week), world.assign(1, to));
        assert_eq!((made.status, moved.status), (201, 200), "{} {}", made.text, moved.text);
        let left = format!(
            "SELECT count(*) FROM timesheet.submissions WHERE status = 'submitted'
             AND assigned_approver_member_id <> '{}'",
            world.people[to].member
        );
        assert_eq!(world.count(left).await, 0, "no week waits for a replaced approver");
    }
    world.submissions_are_whole().await;
}
