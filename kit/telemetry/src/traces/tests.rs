//! Spans reach a receiver that is plain HTTP and protobuf, with their parents and their part's name; an unreachable
//! receiver costs only spans, which are counted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use contract::Settings;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prometheus::IntCounter;
use prost::Message as _;

use opentelemetry::trace::TracerProvider as _;

use super::config::TraceConfig;
use super::export::WayOut;
use super::span::Tracer;

const LONG: Duration = Duration::from_secs(20);

fn lost() -> IntCounter {
    IntCounter::new("lost", "Lost.").expect("a counter")
}

fn way_out(port: u16, more: &[(&str, &str)]) -> WayOut {
    let settings = Settings::default()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}"))
        .with("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k")
        .with("OTEL_EXPORTER_OTLP_TIMEOUT", "200");
    let settings = more.iter().fold(settings, |settings, (name, value)| settings.with(*name, *value));
    let config = TraceConfig::read(&settings).expect("good settings").expect("a receiver");
    WayOut::start(config).expect("a thread")
}

fn tracer(way: &WayOut, service: &'static str, lost: IntCounter) -> Tracer {
    Tracer::new(way.provider(service, lost).tracer(service))
}

/// A receiver that yields every request's head and body.
fn receiver() -> (u16, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (tell, requests) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut read = Vec::new();
            let mut chunk = [0; 4096];
            let whole = loop {
                let count = stream.read(&mut chunk).unwrap_or_default();
                read.extend_from_slice(&chunk[..count]);
                let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                let body = &read[end + 4..];
                if body.len() >= length.expect("a length") {
                    break (head, body.to_vec());
                }
            };
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .expect("an answer");
            // The client has its response, so a failed shutdown does not concern this test.
            drop(stream.shutdown(Shutdown::Write));
            if tell.send(whole).is_err() {
                return;
            }
        }
    });
    (port, requests)
}

#[test]
fn spans_reach_the_receiver_with_their_parents_under_their_parts_names() {
    let (port, requests) = receiver();
    let way = way_out(port, &[]);
    let (edge, module) = (tracer(&way, "gateway", lost()), tracer(&way, "timesheet", lost()));
    let served = edge.serve(None);
    let asked = served.ask("GET timesheet").expect("it is seen");
    let inner = module.serve(Some(asked.context()));
    let trace = served.context().trace_id();
    drop((inner, asked));
    served.answered("GET", "/api/{moduleKey}/{path}", 503, "c-1");
    drop(served);
    assert!(way.flush(LONG), "everything goes out in time");

    let mut names = Vec::new();
    for _ in 0..2 {
        let (head, body) = requests.recv_timeout(LONG).expect("an export");
        assert!(head.starts_with("post /v1/traces ") && head.contains("x-key: k"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        for part in ExportTraceServiceRequest::decode(body.as_slice()).expect("protobuf").resource_spans {
            let attributes = part.resource.expect("a resource").attributes;
            let name = attributes.iter().find(|one| one.key == "service.name").expect("a name");
            let name = format!("{:?}", name.value);
            for span in part.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                assert_eq!(span.trace_id, trace.to_bytes(), "one trace");
                let service = ["gateway", "timesheet"].into_iter().find(|service| name.contains(service));
                names.push((service.expect("a part's name"), span.name, span.span_id, span.parent_span_id));
            }
        }
    }
    names.sort();
    let [served, asked, inner] = names.as_slice() else { panic!("three spans: {names:?}") };
    assert_eq!((asked.1.as_str(), served.1.as_str()), ("GET timesheet", "GET /api/{moduleKey}/{path}"));
    assert_eq!((&inner.3, &asked.3, served.3.is_empty()), (&asked.2, &served.2, true));
}

#[test]
fn a_sender_decides_whether_its_trace_is_kept_and_a_ratio_about_the_others() {
    let (port, _requests) = receiver();
    let way = way_out(
        port,
        &[("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")],
    );
    let tracer = tracer(&way, "gateway", lost());
    let own = tracer.serve(None);
    assert!(!own.is_recording() && own.context().is_valid(), "not kept, but passed on");
    let with = |flags: &str| {
        let mut headers = http::HeaderMap::new();
        let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        headers.insert("traceparent", parent.parse().expect("a value"));
        tracer.serve(super::context::accept(&headers).as_ref())
    };
    assert!(with("01").is_recording());
    let unkept = with("00");
    assert!(!unkept.is_recording() && unkept.step("anything").is_none());
    assert_eq!(unkept.context().trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[test]
fn a_receiver_that_is_away_holds_nobody_up_and_what_is_lost_is_counted() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let way = way_out(port, &[("OTEL_BSP_MAX_QUEUE_SIZE", "8"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")]);
    let lost = lost();
    let tracer = tracer(&way, "gateway", lost.clone());
    let begun = Instant::now();
    for _ in 0..1_000 {
        drop(tracer.serve(None));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "ending a span never waits for the receiver: {took:?}");
    assert!(way.flush(LONG), "the thread goes on");
    assert_eq!(lost.get(), 1_000, "every one is counted");
}

#[test]
fn the_wait_for_a_receiver_that_hangs_is_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let way = way_out(
        listener.local_addr().expect("an address").port(),
        &[("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")],
    );
    drop(tracer(&way, "gateway", lost()).serve(None));
    let begun = Instant::now();
    assert!(!way.flush(Duration::from_millis(100)), "nothing went out");
    assert!(begun.elapsed() < Duration::from_secs(10), "and it said so in time");
}
