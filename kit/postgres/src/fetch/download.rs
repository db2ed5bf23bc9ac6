//! Downloads one archive into the cache. This process or a later one resumes an interrupted download; an archive with a
//! wrong checksum is deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode, redirect};
use ring::digest::{Context, SHA256};
use tokio::time::Instant;

use super::{Progress, Release, Source, Tell};
use crate::Error;

/// Longest wait for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);
/// Longest silence while bytes should arrive; a slow connection is not an error.
const SILENCE: Duration = Duration::from_secs(30);
/// Attempts per run when the download breaks off.
const ATTEMPTS: u32 = 4;
/// Pause before another attempt.
const REST: Duration = Duration::from_secs(1);
/// Most redirects by a repository.
const MAX_REDIRECTS: usize = 5;
/// Interval between progress reports.
const TELL_INTERVAL: Duration = Duration::from_millis(500);
/// Bytes hashed at a time.
const PIECE: usize = 64 << 10;

/// Why one attempt ended early.
enum Broken {
    /// A retry may help.
    Off(String),
    /// A retry does not help.
    For(Error),
}

/// The path of the complete archive, whose checksum has been verified.
pub(super) async fn download(
    release: &Release,
    source: &Source,
    cache: &Path,
    tell: Tell<'_>,
) -> Result<PathBuf, Error> {
    let (address, part) =
        (source.address(&release.path()), cache.join(format!("{}.part", release.archive())));
    let client = client(source).map_err(|error| failed(&address, &error))?;
    let mut begun_anew = false;
    let mut attempt = 1;
    loop {
        let have = fs::metadata(&part).map_or(0, |found| found.len());
        let resumed = have > 0;
        let outcome = if have == release.bytes {
            Ok(())
        } else {
            tell(Progress::Begun { address: address.clone(), have });
            attempt_once(&client, source, &address, release, &part, tell).await
        };
        match outcome {
            Ok(()) => match checked(release, &part, &address) {
                Ok(()) => return Ok(part),
                // An earlier run may have downloaded from another address; a download from the start must be right.
                Err(_) if resumed && !begun_anew => begun_anew = true,
                Err(wrong) => return Err(wrong),
            },
            Err(Broken::For(error)) => return Err(error),
            Err(Broken::Off(why)) if attempt < ATTEMPTS => {
                tell(Progress::Again { why });
                attempt += 1;
                tokio::time::sleep(REST).await;
            }
            Err(Broken::Off(why)) => return Err(failed(&address, &why)),
        }
    }
}

fn client(source: &Source) -> Result<Client, String> {
    // TLS libraries in one process share one provider; a second installation has no effect.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let builder = Client::builder()
        .connect_timeout(CONNECT_PATIENCE)
        .read_timeout(SILENCE)
        .redirect(redirect::Policy::limited(MAX_REDIRECTS))
        .user_agent(concat!("platform/", env!("CARGO_PKG_VERSION")))
        // Only the configured proxies: the settings already include the environment.
        .no_proxy();
    let builder = source.proxies.iter().cloned().fold(builder, reqwest::ClientBuilder::proxy);
    builder.build().map_err(|error| error.to_string())
}

async fn attempt_once(
    client: &Client,
    source: &Source,
    address: &str,
    release: &Release,
    part: &Path,
    tell: Tell<'_>,
) -> Result<(), Broken> {
    let have = fs::metadata(part).map_or(0, |found| found.len());
    let mut request = client.get(address);
    if let Some((name, password)) = &source.login {
        request = request.basic_auth(name, Some(password));
    }
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
    }
    let answer = request.send().await.map_err(|error| Broken::Off(cause(&error)))?;
    let mut file = match resume_position(&answer, have) {
        Some(0) => open(part, true),
        Some(_) => open(part, false),
        None => return Err(unexpected(answer.status(), part, address)),
    }
    .map_err(|error| Broken::For(Error::file(part)(error)))?;
    receive(answer, &mut file, release, part, tell).await
}

/// The offset in the file at which this response's bytes begin; `None` when the response is not a part of the file.
fn resume_position(answer: &Response, have: u64) -> Option<u64> {
    match answer.status() {
        StatusCode::OK => Some(0),
        StatusCode::PARTIAL_CONTENT => {
            let range = answer.headers().get(CONTENT_RANGE)?.to_str().ok()?;
            range.starts_with(&format!("bytes {have}-")).then_some(have)
        }
        _ => None,
    }
}

fn unexpected(status: StatusCode, part: &Path, address: &str) -> Broken {
    // The repository cannot resume at this offset, but can start over.
    if matches!(status, StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PARTIAL_CONTENT) {
        return match fs::remove_file(part) {
            Ok(()) => Broken::Off(format!("the response was {status}; starting over")),
            Err(error) => Broken::For(Error::file(part)(error)),
        };
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Broken::Off(format!("the response was {status}"));
    }
    Broken::For(failed(address, &format!("the response was {status}")))
}

fn open(part: &Path, anew: bool) -> std::io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(anew).append(!anew).open(part)
}

async fn receive(
    mut answer: Response,
    file: &mut File,
    release: &Release,
    part: &Path,
    tell: Tell<'_>,
) -> Result<(), Broken> {
    let kept = |error| Broken::For(Error::file(part)(error));
    let before = file.metadata().map_err(kept)?.len();
    let (mut have, begun, mut told) = (before, Instant::now(), Instant::now());
    while let Some(bytes) = answer.chunk().await.map_err(|error| Broken::Off(cause(&error)))? {
        // A response longer than the archive is not the archive, and could be endless.
        let room = usize::try_from(release.bytes.saturating_sub(have)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room.saturating_add(1)).unwrap_or(&bytes);
        file.write_all(bytes).map_err(kept)?;
        have = have.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if have > release.bytes {
            break;
        }
        if told.elapsed() >= TELL_INTERVAL {
            told = Instant::now();
            tell(arrived(have, release, have - before, begun.elapsed()));
        }
    }
    tell(arrived(have, release, have - before, begun.elapsed()));
    if have < release.bytes {
        return Err(Broken::Off(format!("the response ended after {have} of {} bytes", release.bytes)));
    }
    Ok(())
}

fn arrived(have: u64, release: &Release, since: u64, elapsed: Duration) -> Progress {
    let rate = u128::from(since).saturating_mul(1_000) / elapsed.as_millis().max(1);
    Progress::Arrived { have, all: release.bytes, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
}

/// Verifies the checksum, and deletes a wrong file so that the next start does not find it.
fn checked(release: &Release, part: &Path, address: &str) -> Result<(), Error> {
    let found = sha256(part).map_err(Error::file(part))?;
    if found == release.sha256 {
        return Ok(());
    }
    fs::remove_file(part).map_err(Error::file(part))?;
    Err(Error::Checksum { address: address.to_owned(), expected: release.sha256, found })
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut piece) = (File::open(path)?, Context::new(&SHA256), vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece)?;
        match piece.get(..read) {
            Some([]) | None => break,
            Some(bytes) => hash.update(bytes),
        }
    }
    let hex = |text: String, byte: &u8| text + &format!("{byte:02x}");
    Ok(hash.finish().as_ref().iter().fold(String::new(), hex))
}

fn failed(address: &str, why: &str) -> Error {
    Error::Fetch { address: address.to_owned(), why: why.to_owned() }
}

/// The innermost cause: the outer ones only repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
