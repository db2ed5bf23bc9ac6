//! Properties that hold after any history.

use serde_json::Value;

use super::history::play;

#[tokio::test]
async fn p01_versions_of_a_week_are_one_chain_with_one_current() {
    for seed in [11, 12] {
        let played = play(seed).await;
        played.world.submissions_are_whole().await;
        let versions: usize = played.ids.values().map(Vec::len).sum();
        assert!(
            versions > 5 && played.ids.values().any(|ids| ids.len() > 1),
            "seed {seed}: {versions} versions"
        );
    }
}

#[tokio::test]
async fn p04_a_week_that_is_submitted_or_approved_is_what_was_submitted() {
    for seed in [41, 42] {
        let played = play(seed).await;
        let mut locked = 0;
        for ((who, week), found) in &played.model.weeks {
            let Some(last) = found.versions.last() else { continue };
            if matches!(last.status, "submitted" | "approved") {
                let held = played.held(*who, *week, found.versions.len() - 1).await;
                assert_eq!(played.entries(*who, *week).await, held, "seed {seed}");
                locked += 1;
            }
        }
        assert!(
            locked > 1 && played.refused > 10,
            "seed {seed}: {locked} locked, {} refused",
            played.refused
        );
    }
}

#[tokio::test]
async fn p05_every_version_shows_what_it_held_when_it_was_submitted() {
    for seed in [51, 52] {
        let played = play(seed).await;
        for ((who, week), found) in &played.model.weeks {
            for (at, version) in found.versions.iter().enumerate() {
                assert_eq!(played.held(*who, *week, at).await, version.held, "seed {seed}");
            }
        }
    }
}

#[tokio::test]
async fn p08_no_day_has_more_hours_than_the_rules_of_its_writing_allowed() {
    for seed in [81, 82] {
        // The model, which knows the rules at the time of each write, has checked every response; here, no day may
        // exceed 24 hours.
        let played = play(seed).await;
        let over =
            "SELECT count(*) FROM (SELECT 1 FROM timesheet.entries GROUP BY company_id, member_id, entry_date
            HAVING sum(real_hours) > 24) AS days";
        assert_eq!(played.world.count(over.to_owned()).await, 0);
    }
}

#[tokio::test]
async fn p14_every_change_has_one_audit_row_with_its_subject_and_nothing_else_has() {
    for seed in [141, 142] {
        let played = play(seed).await;
        let subject = |who: usize| played.world.people[who].subject.clone();
        let expected: Vec<(String, String)> =
            played.model.told.iter().map(|(who, action)| (subject(*who), (*action).to_owned())).collect();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let told: Vec<(String, String)> = played.world.module.audit().await[3..]
            .iter()
            .map(|event| (text(&event["actor"]), text(&event["action"])))
            .collect();
        assert_eq!(told, expected, "seed {seed}, after the three projects");
    }
}
