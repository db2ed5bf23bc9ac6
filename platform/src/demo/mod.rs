//! `platform demo`: creates a small company on a running platform through the public API, as its users would. A second
//! run creates only what is missing.
//!
//! ```text
//! People::log_in -> org::fill (company, members, units, positions, groups) -> timesheet::fill -> notification::fill
//!   -> docs::fill -> helpdesk::fill -> tell
//! ```

mod api;
mod bar;
mod cast;
mod docs;
mod helpdesk;
mod notification;
mod org;
mod people;
mod timesheet;

use contract::{Clock, Settings};

use bar::Bar;
use cast::COMPANY;
use people::People;

use crate::console;
use crate::plan::UpConfig;
use crate::stop::Stop;

/// Fills a running platform.
pub(crate) async fn demo(settings: &Settings) -> Result<(), Stop> {
    let config = UpConfig::read(settings)?;
    let of_modules = timesheet::STEPS + notification::STEPS + docs::STEPS + helpdesk::STEPS;
    let mut bar = Bar::new(people::STEPS + org::steps() + of_modules);
    let people = People::log_in(settings, &config, &mut bar).await?;
    let company = org::fill(&people, &mut bar).await?;
    timesheet::fill(&people, &company, Clock::system().now(), &mut bar).await?;
    notification::fill(&people, &company, &mut bar).await?;
    docs::fill(&people, &company, &mut bar).await?;
    helpdesk::fill(&people, &company, &mut bar).await?;
    match bar.made {
        0 => console::result(&format!("{} exists already; nothing was changed", COMPANY.1)),
        made => console::result(&format!("{} is ready: {made} things created", COMPANY.1)),
    }
    tell(&config, &people, &company.id);
    Ok(())
}

/// Five things to try, as commands that can be copied.
fn tell(config: &UpConfig, people: &People, company: &str) {
    let base = format!("https://{}", config.domain);
    let admin = &people.administrator.login;
    let certificate = config.data_dir.join("certs/ca.pem");
    let trust = if config.makes_certificates {
        format!(" --cacert {}", certificate.display())
    } else {
        String::new()
    };
    let call = |user: &str, rest: &str| {
        format!(r#"curl -sS{trust} -H "Authorization: Bearer $(platform token --user {user})" {rest}"#)
    };
    let timesheet = format!("{base}/api/timesheet/v1/companies/{company}");
    let things = [
        ("Alice's companies", call("alice", &format!("{base}/api/org/me/companies"))),
        (
            "weeks for Carol to decide; one is pending",
            call("carol", &format!("'{timesheet}/submissions?view=approvals'")),
        ),
        (
            "a refusal: Bob may not create a project",
            call(
                "bob",
                &format!(
                    r#"-H 'Content-Type: application/json' {timesheet}/projects -d '{{"code":"MINE","name":"My own"}}'"#
                ),
            ),
        ),
        (
            "turn the timesheet off (on again with /enable); Alice's next call is refused",
            call(admin, &format!("-X POST {base}/api/platform/admin/modules/timesheet/disable")),
        ),
        (
            "access decisions so far, by reason",
            call(admin, &format!("{base}/api/platform/metrics | grep ^platform_authz_decisions_total")),
        ),
    ];
    console::result("\nFive things to try (in this folder, with `platform` as this program):");
    for (number, (what, command)) in (1..).zip(things) {
        console::result(&format!("\n{number}. {what}\n   {command}"));
    }
}
