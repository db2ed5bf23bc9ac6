//! `platform config`, unknown variables, and the command line itself.

use crate::fixture::Platform;

#[test]
fn every_variable_has_a_line_and_secrets_are_masked() {
    let run = Platform::new()
        .with("PLATFORM_DATABASE_URL", "postgres://owner:hunter2@db/platform")
        .with("PLATFORM_ORG_DB_PASSWORD", "hunter2")
        .with("PLATFORM_REALM", "acme")
        .run(&["config"]);
    run.succeeded();
    assert!(!run.out.contains("hunter2"), "{}", run.out);
    let line = |name: &str| {
        let found = run.out.lines().find(|line| line.starts_with(&format!("{name} ")));
        found.unwrap_or_else(|| panic!("no line of {name} in {}", run.out)).to_owned()
    };
    assert!(line("NAME").contains("DEFAULT") && line("NAME").contains("MEANING"));
    assert!(line("PLATFORM_DATABASE_URL").contains("***"));
    assert!(line("PLATFORM_ORG_DB_PASSWORD").contains("***"));
    assert!(line("PLATFORM_REALM").contains("acme"));
    assert!(
        line("PLATFORM_DRAIN_TIMEOUT").contains("10s") && line("PLATFORM_DRAIN_TIMEOUT").contains("duration")
    );
    assert!(line("IDP_JWKS_URL").contains("URL"));
}

#[test]
fn an_unknown_variable_is_a_warning_with_the_nearest_name() {
    let run =
        Platform::new().with("PLATFORM_DOMIAN", "x").with("PLATFORM_MODULE_HOST_DOCS", "h").run(&["config"]);
    run.succeeded();
    assert!(
        run.err.contains("unknown variable PLATFORM_DOMIAN; did you mean PLATFORM_DOMAIN?"),
        "{}",
        run.err
    );
    assert_eq!(run.err.matches("warning").count(), 1, "{}", run.err);
}

#[test]
fn a_misspelt_prefix_or_member_of_a_family_is_a_warning_too() {
    let run = Platform::new()
        .with("PLATFROM_REALM", "x")
        .with("PLATFORM_NOTIFICATIONS_DB_HOST", "h")
        .with("PLATFORM_NOTIFICATION_DB_HOST", "h")
        .run(&["config"]);
    run.succeeded();
    for (wrong, near) in [
        ("PLATFROM_REALM", "PLATFORM_REALM"),
        ("PLATFORM_NOTIFICATIONS_DB_HOST", "PLATFORM_NOTIFICATION_DB_HOST"),
    ] {
        let warning = format!("unknown variable {wrong}; did you mean {near}?");
        assert!(run.err.contains(&warning), "{}", run.err);
    }
    assert_eq!(run.err.matches("warning").count(), 2, "{}", run.err);
}

#[test]
fn usage_errors_are_refused_and_help_is_not_one() {
    for wrong in [&["fly"][..], &[], &["serve"], &["token"], &["token", "--user", "a", "--client", "b"]] {
        assert_eq!(Platform::new().run(wrong).code, Some(2), "{wrong:?}");
    }
    let help = Platform::new().run(&["--help"]);
    help.succeeded();
    for command in ["up", "serve", "migrate", "check", "config", "token"] {
        assert!(help.out.contains(command), "{}", help.out);
    }
}

#[test]
fn serve_names_what_it_knows() {
    let run = Platform::new().run(&["serve", "payroll"]);
    run.refused(&["\"payroll\"", "gateway", "authz", "timesheet"]);
}

#[test]
fn serve_names_every_required_variable() {
    let run = Platform::new().run(&["serve", "org"]);
    run.refused(&[
        "PLATFORM_ORG_DB_PORT",
        "PLATFORM_ORG_DB_NAME",
        "PLATFORM_ORG_DB_PASSWORD",
        "IDP_JWKS_URL",
    ]);
}
