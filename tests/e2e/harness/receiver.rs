//! A receiver of traces: only OTLP over HTTP as protobuf.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;

/// A received span.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) attributes: Vec<(String, String)>,
}

/// Everything received so far.
#[derive(Clone, Default)]
pub(crate) struct Receiver(Arc<Mutex<Vec<Told>>>);

impl Receiver {
    /// Listens on a free port, and returns the port.
    pub(crate) fn start() -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let receiver = Self::default();
        let told = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let told = told.clone();
                std::thread::spawn(move || told.serve(stream));
            }
        });
        (receiver, port)
    }

    /// The spans of one trace.
    pub(crate) fn of(&self, trace: &str) -> Vec<Told> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().filter(|span| span.trace == trace).cloned().collect()
    }

    /// Handles one connection, request by request, until the exporter closes it.
    fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some((head, body)) = request(&mut stream, &mut buffer) {
            assert!(head.starts_with("post /v1/traces "), "{head}");
            self.take(&body);
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }

    fn take(&self, body: &[u8]) {
        let export = ExportTraceServiceRequest::decode(body).expect("an export as protobuf");
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for part in export.resource_spans {
            let resource = attributes(part.resource.unwrap_or_default().attributes);
            let name = resource.into_iter().find(|(key, _)| key == "service.name");
            let service = name.map(|(_, value)| value).expect("every part says its name");
            for span in part.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                told.push(Told {
                    service: service.clone(),
                    name: span.name,
                    trace: hexadecimal(&span.trace_id),
                    id: hexadecimal(&span.span_id),
                    parent: hexadecimal(&span.parent_span_id),
                    state: span.trace_state,
                    attributes: attributes(span.attributes),
                });
            }
        }
    }
}

/// The next request of a connection; `buffer` holds the bytes received beyond it.
fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut chunk = [0; 16 << 10];
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let whole = end + 4 + length.expect("a body of known length");
            if buffer.len() >= whole {
                let rest = buffer.split_off(whole);
                let body = buffer.split_off(end + 4);
                *buffer = rest;
                return Some((head, body));
            }
        }
        let count = stream.read(&mut chunk).unwrap_or_default();
        if count == 0 {
            return None;
        }
        buffer.extend_from_slice(&chunk[..count]);
    }
}

fn attributes(told: Vec<opentelemetry_proto::tonic::common::v1::KeyValue>) -> Vec<(String, String)> {
    let text = |value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other @ (Value::BoolValue(_)
        | Value::DoubleValue(_)
        | Value::ArrayValue(_)
        | Value::KvlistValue(_)
        | Value::BytesValue(_)
        | Value::StringValueStrindex(_)) => format!("{other:?}"),
    };
    let pair = |one: opentelemetry_proto::tonic::common::v1::KeyValue| {
        (one.key, one.value.and_then(|value| value.value).map(text).unwrap_or_default())
    };
    told.into_iter().map(pair).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}
