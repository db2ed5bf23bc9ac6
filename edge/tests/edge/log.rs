//! The gateway as a program that logs to a pipe: a stalled reader blocks nothing, and the last lines are written.

use std::fs::File;
use std::io::{Read, Write, pipe};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::backend::{Answer, Backend};
use crate::client::{Client, Reply, Version, request};
use crate::tokens::Signer;
use crate::world::{certificate, snapshot, variables};

/// Far more than a start takes.
const START: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_secs(2);
/// Shutdown time besides the drain: the last lines of two logs, a second each.
const END: Duration = Duration::from_secs(4);
/// More lines than a pipe and its queue hold.
const REQUESTS: usize = 300;

/// A running gateway.
struct Program {
    child: Child,
    tls: SocketAddr,
    root: CertificateDer<'static>,
    folder: PathBuf,
    _backend: Backend,
    _catalog: watch::Sender<String>,
}

impl Program {
    async fn start(more: &[(&str, &str)], log: OwnedFd) -> Self {
        let backend = Backend::start().await;
        let (catalog, lines) = watch::channel(snapshot(1, "OK"));
        backend.on_path("/certs", Answer::Json(200, Signer::new().jwks()));
        backend.on_path("/internal/platform/snapshot", Answer::Lines(lines));
        let (folder, root) = certificate();
        let tls = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let address = tls.to_string();
        let drain = format!("{}s", DRAIN.as_secs());
        let own = [
            ("PLATFORM_EDGE_ADDR", address.as_str()),
            ("PLATFORM_EDGE_PLAIN_ADDR", ""),
            ("PLATFORM_DRAIN_TIMEOUT", &drain),
            ("PLATFORM_GATEWAY_WORKERS", "2"),
        ];
        let child = Command::new(env!("CARGO_BIN_EXE_gateway"))
            .env_clear()
            .envs(variables(&backend, &folder, &[&own[..], more].concat()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        Self { child, tls, root, folder, _backend: backend, _catalog: catalog }
    }

    async fn get(&self, version: Version, path: &str) -> Reply {
        Client::connect(self.tls, &self.root, version).await.send(request(Method::GET, path, &[], "")).await
    }

    async fn ready(&self) {
        let ready = async {
            while TcpStream::connect(self.tls).await.is_err()
                || self.get(Version::H1, "/readyz").await.status != 200
            {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(START, ready).await.expect("the gateway gets ready");
    }

    /// Whether it exited successfully; `None` if not in time.
    async fn ends_within(&mut self, limit: Duration) -> Option<bool> {
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("a child") {
                    return status.success();
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(limit, ended).await.ok()
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        std::fs::remove_dir_all(&self.folder).expect("the test's own folder");
    }
}

/// A full pipe, and its end that is never read.
fn full_pipe() -> (OwnedFd, impl Sized) {
    let (reader, writer) = pipe().expect("a pipe");
    let mut writer = File::from(OwnedFd::from(writer));
    let flags = fcntl_getfl(&writer).expect("flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("flags");
    for piece in [&[b'x'; 4096][..], b"x"] {
        while writer.write(piece).is_ok() {}
    }
    fcntl_setfl(&writer, flags).expect("flags");
    (writer.into(), reader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_stops_neither_requests_nor_the_end() {
    let (log, _reader) = full_pipe();
    // Everything is logged, by every thread.
    let mut program = Program::start(&[("PLATFORM_LOG", "trace")], log).await;
    program.ready().await;
    for _ in 0..REQUESTS / 2 {
        for version in [Version::H1, Version::H2] {
            let reply = timeout(START, program.get(version, "/healthz")).await.expect("an answer in time");
            assert_eq!(reply.status, 200);
        }
    }
    let asked = Instant::now();
    program.terminate();
    assert_eq!(program.ends_within(DRAIN + END).await, Some(true), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_read_has_all_lines_to_the_last() {
    for fails in [false, true] {
        let (mut reader, writer) = pipe().expect("a pipe");
        let read = tokio::task::spawn_blocking(move || {
            let mut log = String::new();
            reader.read_to_string(&mut log).map(|_| log)
        });
        let more = [("PLATFORM_LOG", "info"), ("PLATFORM_TLS_CERT", "/no/such/file")];
        let mut program = Program::start(&more[..if fails { 2 } else { 1 }], writer.into()).await;
        if !fails {
            program.ready().await;
            program.terminate();
        }
        assert_eq!(program.ends_within(START).await, Some(!fails));
        let log = timeout(START, read).await.expect("its end").expect("no panic").expect("text");
        if fails {
            let last = log.lines().last().expect("a line");
            assert!(log.ends_with('\n') && last.contains("the edge cannot serve"), "{log}");
        } else {
            assert!(log.is_empty() || log.ends_with('\n'), "{log}");
        }
    }
}
