//! The window of open weeks, with a clock that the test moves.

use std::time::Duration;

use contract::Clock;
use serde_json::json;
use testkit::ModuleApi;
use time::{Date, OffsetDateTime, Time, Weekday};
use timesheet::{Config, KEY, OPENAPI};
use uuid::Uuid;

use crate::support::reason;

/// From Sunday 10:00Z it is Monday at UTC+14, and until Monday 12:00Z it is Sunday at UTC-12. At these times and a
/// second before, exactly the weeks that are current somewhere are open; the rules allow no others.
#[tokio::test]
async fn p09_weeks_open_and_close_as_the_day_turns_around_the_world() {
    let clock = Clock::standing_at(Clock::system().unix_seconds());
    let moved = clock.clone();
    let module = ModuleApi::start(KEY, OPENAPI, |settings, listener, stop| async move {
        let config = Config::read(&settings).expect("the settings of a test are right");
        timesheet::serve_by(clock, config, listener, stop).await.expect("the listener works");
    })
    .await;
    module.member(Uuid::now_v7(), &[], &[]);
    let none = json!({ "allowedPreviousWeeks": 0, "allowedFutureWeeks": 0 });
    assert_eq!(module.ask("PUT", "/settings", Some(none)).await.status, 200);
    let sunday = next_sunday(moved.now());
    let at = |days: i64, hour: i64, second: i64| {
        let midnight = OffsetDateTime::new_utc(sunday, Time::MIDNIGHT);
        midnight + time::Duration::days(days) + time::Duration::hours(hour) + time::Duration::seconds(second)
    };
    let (this, next) = (sunday - time::Duration::days(6), sunday + time::Duration::days(1));
    for (moment, open) in [
        (at(0, 10, -1), vec![this]),
        (at(0, 10, 0), vec![this, next]),
        (at(0, 23, 1_800), vec![this, next]),
        (at(1, 12, -1), vec![this, next]),
        (at(1, 12, 0), vec![next]),
    ] {
        let wait = (moment - moved.now()).whole_seconds();
        moved.advance(Duration::from_secs(u64::try_from(wait).expect("moments in order")));
        for monday in [this - time::Duration::weeks(1), this, next, next + time::Duration::weeks(1)] {
            let reply = submit(&module, &moved, monday).await;
            let closed = (reply.status, reason(&reply)) == (422, "WEEK_OUT_OF_WINDOW");
            let is_open = reply.status == 201 || reply.code() == "SUBMISSION_PENDING";
            assert_eq!(
                (is_open, closed),
                (open.contains(&monday), !open.contains(&monday)),
                "{moment} {monday}"
            );
            // Removes the submission, so that the week is new next time.
            module.execute("TRUNCATE timesheet.submission_entries, timesheet.submissions".to_owned()).await;
        }
    }
}

/// Submits a week with a token that is valid at the clock's time.
async fn submit(module: &ModuleApi, clock: &Clock, monday: Date) -> testkit::Reply {
    let token = module.issuer.token(testkit::module::SUBJECT).claim("exp", clock.unix_seconds() + 60).sign();
    let call = module.api.post(module.path(module.company, "/submissions")).bearer(&token);
    module.send("POST", "/submissions", call.json(json!({ "weekStart": monday.to_string() }))).await
}

fn next_sunday(now: OffsetDateTime) -> Date {
    now.date().next_occurrence(Weekday::Sunday)
}
