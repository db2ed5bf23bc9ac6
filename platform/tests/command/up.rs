//! Starts that must fail: exit code 2, nothing served, and a message that says what to do.

use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::demo::database;
use crate::fixture::Platform;

#[test]
fn every_bad_value_is_named_with_what_is_right() {
    let run = Platform::new()
        .with("PLATFORM_DRAIN_TIMEOUT", "soon")
        .with("PLATFORM_DB_POOL_MAX", "many")
        .with("PLATFORM_DB_WORKER_POOL_MAX", "0")
        .run(&["up"]);
    run.refused(&[
        "PLATFORM_DRAIN_TIMEOUT: \"soon\" is not a duration such as 250ms, 2s or 10m",
        "PLATFORM_DB_POOL_MAX: \"many\" is not a whole number of at least 1",
        "PLATFORM_DB_WORKER_POOL_MAX: \"0\" is not a whole number of at least 1",
    ]);
    assert_eq!(run.err.matches("PLATFORM_DRAIN_TIMEOUT").count(), 1, "ten servers, one problem: {}", run.err);
}

#[test]
fn bad_addresses_ports_and_sizes_are_refused() {
    for (name, value) in [
        ("PLATFORM_EDGE_ADDR", "8443"),
        ("PLATFORM_EDGE_PLAIN_ADDR", "localhost:x"),
        ("PLATFORM_LISTEN_ADDR", "everywhere"),
        ("PLATFORM_PORT_OFFSET", "60000"),
        ("PLATFORM_PORT_OFFSET", "-1"),
        ("PLATFORM_MIN_FREE_DISK", "much"),
        ("PLATFORM_LOG_FORMAT", "xml"),
    ] {
        Platform::new().with(name, value).run(&["up"]).refused(&[name, value]);
    }
}

#[test]
fn an_unknown_module_is_refused_with_the_known_ones() {
    let run = Platform::new().with("PLATFORM_INSTALLED_MODULES", "timesheet,payroll").run(&["up"]);
    run.refused(&["PLATFORM_INSTALLED_MODULES", "\"payroll\"", "timesheet, notification, helpdesk, docs"]);
}

#[test]
fn a_first_start_that_nobody_could_administer_is_refused_at_once() {
    for (name, value, named) in [
        ("PLATFORM_SUPERADMINS", "admni", "\"admni\""),
        ("PLATFORM_SUPERADMINS", "root,operator", "\"root, operator\""),
        ("PLATFORM_DEV_USERS", "alice:alice,bob:bob", "\"admin\""),
    ] {
        for command in ["check", "up"] {
            let run = Platform::new().with(name, value).run(&[command]);
            run.refused(&["PLATFORM_SUPERADMINS: ", named, "PLATFORM_DEV_USERS (", "alice"]);
        }
    }
    for good in ["Alice", "nobody-yet,bob", "service-account-crm"] {
        let platform = Platform::new().with("PLATFORM_SUPERADMINS", good);
        platform.with("PLATFORM_SERVICE_CLIENTS", "crm").run(&["check"]).succeeded();
    }
    let elsewhere = Platform::new().with("PLATFORM_SUPERADMINS", "known-there");
    let elsewhere = elsewhere.with("PLATFORM_IDP_URL", "http://127.0.0.1:1");
    let elsewhere = elsewhere.with("PLATFORM_IDP_ADMIN_CLIENT_ID", "platform-admin");
    elsewhere.with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "secret").run(&["check"]).succeeded();
}

#[test]
fn operators_commands_refuse_a_credential_that_no_service_would_take() {
    for bad in ["short", "with blanks in it and long enough"] {
        let operator = Platform::new().with("PLATFORM_OPERATOR_TOKEN", bad);
        for command in [
            &["identity", "suspend", "a"][..],
            &["identity", "user", "add", "a"],
            &["org", "deactivate", "b"],
        ] {
            let run = operator.run(command);
            run.refused(&["PLATFORM_OPERATOR_TOKEN: must be 24 to 512 visible"]);
            assert!(!run.err.contains(bad), "the secret is not printed: {}", run.err);
        }
    }
}

#[test]
fn users_are_made_in_the_built_in_provider_only() {
    let operator = Platform::new().with("PLATFORM_OPERATOR_TOKEN", "x".repeat(24));
    let elsewhere = operator.with("PLATFORM_IDP_URL", "http://127.0.0.1:1");
    for command in ["add", "show", "reset", "disable", "enable"] {
        let run = elsewhere.run(&["identity", "user", command, "ada"]);
        run.refused(&["PLATFORM_IDP_URL is set: users are created in that provider"]);
    }
}

#[test]
fn one_service_tells_each_problem_once() {
    let run = Platform::new().with("PLATFORM_PORT_OFFSET", "x").run(&["serve", "org"]);
    run.refused(&["PLATFORM_PORT_OFFSET: \"x\""]);
    assert_eq!(run.err.matches("PLATFORM_PORT_OFFSET").count(), 1, "{}", run.err);
}

#[test]
fn a_busy_port_is_named_with_its_variable() {
    let holder = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = holder.local_addr().expect("bound").to_string();
    let port = address.rsplit(':').next().expect("a port").to_owned();
    let run = Platform::new().with("PLATFORM_EDGE_ADDR", &address).run(&["up"]);
    run.refused(&["PLATFORM_EDGE_ADDR", &port, "in use by another program"]);
}

#[test]
fn certificates_that_cannot_be_read_are_refused() {
    let platform = Platform::new().with_file("bad.pem", "no certificate").with_file("bad.key", "no key");
    let (chain, key) = (platform.data_dir.join("bad.pem"), platform.data_dir.join("bad.key"));
    let platform = platform
        .with("PLATFORM_TLS_CERT", chain.to_string_lossy())
        .with("PLATFORM_TLS_KEY", key.to_string_lossy());
    platform.run(&["up"]).refused(&["PLATFORM_TLS_CERT", "bad.pem", "no certificate"]);
    let missing =
        Platform::new().with("PLATFORM_TLS_CERT", "/nonexistent/a.pem").with("PLATFORM_TLS_KEY", "/b.key");
    missing.run(&["up"]).refused(&["PLATFORM_TLS_CERT", "/nonexistent/a.pem", "cannot be read"]);
    Platform::new()
        .with("PLATFORM_TLS_CERT", "/a.pem")
        .run(&["up"])
        .refused(&["PLATFORM_TLS_KEY: is required"]);
}

#[test]
fn a_data_directory_of_a_newer_version_is_refused() {
    let run = Platform::new().with_file("format", "2").run(&["up"]);
    run.refused(&["newer version of the platform", "PLATFORM_DATA_DIR"]);
}

#[test]
fn a_database_cluster_of_another_version_is_refused() {
    let platform = Platform::new()
        .with_file("pg/PG_VERSION", "99\n")
        .with_file("secrets/db-superuser", "secret")
        .with_file("programs/initdb", "")
        .with_file("programs/postgres", "#!/bin/sh\necho 'postgres (PostgreSQL) 15.3'\n")
        .with_free_ports();
    let programs = platform.data_dir.join("programs");
    fs::set_permissions(programs.join("postgres"), Permissions::from_mode(0o755)).expect("a program");
    platform.run(&["up"]).refused(&["PostgreSQL 99", "PLATFORM_PG_BIN"]);
    let platform = platform.with("PLATFORM_PG_BIN", programs.to_string_lossy());
    platform.run(&["up"]).refused(&["PostgreSQL 99", "only 15", "PLATFORM_PG_BIN", "pg_upgrade"]);
}

#[test]
fn a_link_to_lost_data_is_refused() {
    let platform = Platform::new().with_free_ports();
    fs::create_dir_all(&platform.data_dir).expect("a folder");
    std::os::unix::fs::symlink("/nonexistent/cluster", platform.data_dir.join("pg")).expect("a link");
    platform.run(&["up"]).refused(&["/nonexistent/cluster", "is gone"]);
}

#[test]
fn a_data_directory_in_use_is_refused_and_its_holder_named() {
    let platform = Platform::new().with_file("up.lock", "4711");
    let held = File::open(platform.data_dir.join("up.lock")).expect("the lock file");
    held.lock().expect("a lock");
    platform.run(&["up"]).refused(&["in use by process 4711", "PLATFORM_DATA_DIR"]);
}

#[test]
fn a_lost_database_password_is_made_and_set_again() {
    let platform = Platform::new().with_free_ports();
    assert_eq!(platform.start().end(Signal::TERM), Some(0));
    fs::remove_file(platform.data_dir.join("secrets/db-org")).expect("a secret");
    assert_eq!(platform.start().end(Signal::TERM), Some(0));
}

#[test]
fn a_platform_that_takes_this_machine_for_its_balancer_becomes_ready() {
    let platform = Platform::new().with_free_ports().with("PLATFORM_PROXY_PROTOCOL", "127.0.0.1");
    assert_eq!(platform.start().end(Signal::TERM), Some(0));
}

#[test]
fn too_little_space_is_refused() {
    let run = Platform::new().with("PLATFORM_MIN_FREE_DISK", "900000GiB").run(&["up"]);
    run.refused(&["MiB free", "make room", "PLATFORM_MIN_FREE_DISK"]);
}

#[test]
fn missing_database_programs_are_refused() {
    let platform = Platform::new().with("PLATFORM_PG_BIN", "/nonexistent/bin").with_free_ports();
    platform.run(&["up"]).refused(&["/nonexistent/bin", "install PostgreSQL", "PLATFORM_DATABASE_URL"]);
}

#[test]
fn a_data_directory_that_is_a_file_is_refused() {
    let mut platform = Platform::new().with_file("file", "");
    let folder = platform.data_dir.clone();
    platform.data_dir = folder.join("file");
    let run = platform.run(&["up"]);
    platform.data_dir = folder;
    run.refused(&["is a file, not a folder", "PLATFORM_DATA_DIR"]);
}

#[test]
fn the_built_in_provider_is_refused_on_a_public_domain() {
    let run = Platform::new().with("PLATFORM_DOMAIN", "platform.example.com").run(&["up"]);
    run.refused(&["PLATFORM_DOMAIN", "PLATFORM_IDP_BUILTIN=allow"]);
}

#[test]
fn what_a_start_makes_is_private() {
    let platform = Platform::new().with("PLATFORM_PG_BIN", "/nonexistent/bin").with_free_ports();
    platform.run(&["up"]).refused(&[]);
    let mode = |name: &str| {
        let found = platform.data_dir.join(name).metadata().expect(name);
        found.permissions().mode() & 0o777
    };
    for folder in ["", "secrets", "certs"] {
        assert_eq!(mode(folder), 0o700, "{folder}");
    }
    for file in ["secrets/db-org", "secrets/idp-admin", "certs/edge.key", "certs/ca.key"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[test]
fn secrets_and_certificates_are_made_once() {
    let platform = Platform::new().with("PLATFORM_PG_BIN", "/nonexistent/bin").with_free_ports();
    let read = |name: &str| fs::read_to_string(platform.data_dir.join(name)).expect(name);
    platform.run(&["up"]).refused(&[]);
    let first = ["secrets/db-org", "certs/ca.pem", "certs/edge.pem"].map(read);
    platform.run(&["up"]).refused(&[]);
    assert_eq!(first, ["secrets/db-org", "certs/ca.pem", "certs/edge.pem"].map(read));
}

#[test]
fn a_platform_starts_is_killed_starts_again_on_its_data_and_drains() {
    let platform = Platform::new().with_free_ports();
    let first = platform.start();
    assert!(first.said.contains("creating the database"), "{}", first.said);
    platform.run(&["up"]).refused(&[&format!("in use by process {}", first.pid())]);
    assert_eq!(first.end(Signal::KILL), None);

    let second = platform.start();
    assert!(second.said.contains("adopting the running database"), "{}", second.said);
    let token = platform.run(&["token", "--user", "alice"]);
    token.succeeded();
    assert_eq!(token.out.trim().split('.').count(), 3, "a signed token and nothing else: {}", token.out);
    assert_eq!(second.end(Signal::TERM), Some(0));

    let third = platform.start();
    assert!(third.said.contains("starting the database"), "it was stopped with the platform: {}", third.said);
    assert_eq!(third.end(Signal::INT), Some(0));
    assert!(!platform.data_dir.join("pg/postmaster.pid").exists());
}

#[test]
fn the_embedded_database_allows_as_many_connections_as_the_pools_have() {
    let platform = Platform::new().with_free_ports().with("PLATFORM_DB_POOL_MAX", "20");
    assert_eq!(platform.start().end(Signal::KILL), None);

    let platform = platform.with("PLATFORM_DB_POOL_MAX", "30");
    platform.run(&["up"]).refused(&["start again"]);
    assert_eq!(platform.start().end(Signal::TERM), Some(0), "the database started with the new limit");
}

#[tokio::test]
async fn the_servers_reach_the_embedded_database_by_its_socket_unless_its_path_is_too_long() {
    let name = format!("platform-{}", std::process::id());
    for (name, by_socket) in [(name.clone(), true), (format!("{name}-{}", "x".repeat(80)), false)] {
        let mut platform = Platform::new().with_free_ports();
        platform.data_dir = std::env::temp_dir().join(&name);
        let started = platform.start();
        let pool = database(&platform);
        let sql = "SELECT count(*) FILTER (WHERE client_addr IS NULL), count(client_addr) FROM pg_stat_activity \
                   WHERE usename LIKE 'platform\\_%'";
        let (socket, loopback): (i64, i64) = sqlx::query_as(sql).fetch_one(&pool).await.expect("two counts");
        assert_eq!((socket > 0, loopback > 0), (by_socket, !by_socket), "{name}: {socket}, {loopback}");
        pool.close().await;
        assert_eq!(started.end(Signal::TERM), Some(0));
    }
}
