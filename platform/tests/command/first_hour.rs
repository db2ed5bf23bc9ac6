//! The errors of a newcomer's first hour: each says what to do next.

use std::fs;

use rustix::process::Signal;

use crate::fixture::Platform;

#[test]
fn a_platform_that_is_not_there_is_named_with_how_to_start_it() {
    let nobody = Platform::new().with_free_ports();
    for command in [&["token", "--user", "alice"][..], &["demo"]] {
        let run = nobody.run(command);
        assert_eq!(run.code, Some(1), "{}", run.err);
        for words in ["does not answer at https://localhost:", "platform up", "PLATFORM_PORT_OFFSET"] {
            assert!(run.err.contains(words), "no \"{words}\" in: {}", run.err);
        }
    }
}

#[test]
fn a_database_that_does_not_answer_is_named_without_its_password() {
    let nobody =
        Platform::new().with("PLATFORM_DATABASE_URL", "postgres://owner:hunter2@127.0.0.1:1/platform");
    for command in [&["authz", "check", "company:1", "member", "user:1"][..], &["authz", "tuples", "list"]] {
        let run = nobody.run(command);
        assert_eq!(run.code, Some(1), "{}{}", run.out, run.err);
        assert!(run.err.contains("the database at 127.0.0.1:1 does not answer"), "{}", run.err);
        assert!(!run.err.contains("hunter2"), "{}", run.err);
    }
}

#[test]
fn wrong_passwords_untrusted_certificates_and_second_starts_say_what_to_do() {
    let platform = Platform::new().with_free_ports();
    let started = platform.start();
    for words in [
        "data directory",
        "(new)",
        "a development CA's",
        "found PostgreSQL",
        "certs/ca.pem (curl --cacert)",
        "platform demo",
    ] {
        assert!(started.said.contains(words), "no \"{words}\" in: {}", started.said);
    }

    let wrong = platform
        .beside()
        .with("PLATFORM_DEV_USERS", "alice:not-her-password")
        .run(&["token", "--user", "alice"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(1), ""), "{}", wrong.err);
    for words in ["the login of alice was refused", "wrong name or password", "PLATFORM_DEV_USERS"] {
        assert!(wrong.err.contains(words), "no \"{words}\" in: {}", wrong.err);
    }

    let mut elsewhere = platform.beside();
    elsewhere.data_dir = platform.data_dir.with_extension("elsewhere");
    let untrusted = elsewhere.run(&["token", "--user", "alice"]);
    assert_eq!((untrusted.code, untrusted.out.as_str()), (Some(1), ""), "{}", untrusted.err);
    for words in ["is not trusted", "certs/ca.pem", "PLATFORM_DATA_DIR", "--cacert"] {
        assert!(untrusted.err.contains(words), "no \"{words}\" in: {}", untrusted.err);
    }

    let holder = format!("in use by process {}", started.pid());
    platform.run(&["up"]).refused(&[&holder, "stop that platform", "PLATFORM_PORT_OFFSET=1000"]);
    let beside = elsewhere.run(&["up"]);
    beside.refused(&[
        "PLATFORM_EDGE_ADDR: port",
        "in use by another program",
        "ss -ltnp",
        "PLATFORM_PORT_OFFSET=1000",
    ]);
    assert_eq!(started.end(Signal::TERM), Some(0));
    fs::remove_dir_all(&elsewhere.data_dir).expect("what the refused start made");
}
