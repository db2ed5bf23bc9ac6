//! OpenTelemetry's standard variables, read like all others: a bad value is named and prevents the start.

use std::collections::HashMap;
use std::time::Duration;

use contract::settings::{Kind, Problems, split_list};
use contract::{Reader, Settings, Variable};
use opentelemetry_sdk::trace::Sampler;

const ENDPOINT: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    Kind::Url,
    None,
    "Receiver of traces over OTLP (http/protobuf), /v1/traces is added; unset: no traces",
);
const TRACES_ENDPOINT: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    Kind::Url,
    None,
    "The same with its whole path, before the other",
);
const HEADERS: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_HEADERS",
    Kind::Secret,
    None,
    "Headers to the receiver, name=value with commas, values percent-encoded",
);
const TIMEOUT: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    Kind::Integer,
    Some("10000"),
    "Milliseconds that one export may take, its repetitions included",
);
const PROTOCOL: Variable = Variable::new(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    Kind::Text,
    Some("http/protobuf"),
    "How traces go out; http/protobuf is the only way",
);
const SERVICE_NAME: Variable = Variable::new(
    "OTEL_SERVICE_NAME",
    Kind::Text,
    None,
    "service.name of every span; default the part's name (gateway, authz, timesheet, …)",
);
const RESOURCE: Variable = Variable::new(
    "OTEL_RESOURCE_ATTRIBUTES",
    Kind::List,
    None,
    "Further attributes of the process, name=value",
);
const SAMPLER: Variable = Variable::new(
    "OTEL_TRACES_SAMPLER",
    Kind::Text,
    Some("parentbased_always_on"),
    "Which traces are kept: always_on, always_off, traceidratio, and each after parentbased_",
);
const SAMPLER_ARG: Variable =
    Variable::new("OTEL_TRACES_SAMPLER_ARG", Kind::Text, Some("1"), "The ratio of traceidratio, 0 to 1");
const EXPORTER: Variable =
    Variable::new("OTEL_TRACES_EXPORTER", Kind::Text, Some("otlp"), "otlp, or none for no traces");
const DISABLED: Variable =
    Variable::new("OTEL_SDK_DISABLED", Kind::Flag, Some("false"), "true for no traces");
// A request through a module makes some ten spans of half a KiB.
const QUEUE: Variable = Variable::new(
    "OTEL_BSP_MAX_QUEUE_SIZE",
    Kind::Integer,
    Some("2048"),
    "Most spans that wait; past it they are dropped and counted",
);
const BATCH: Variable =
    Variable::new("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", Kind::Integer, Some("512"), "Most spans of one export");
const DELAY: Variable = Variable::new(
    "OTEL_BSP_SCHEDULE_DELAY",
    Kind::Integer,
    Some("5000"),
    "Milliseconds between exports that are not full",
);

/// The variables of traces.
pub(crate) const VARIABLES: [Variable; 14] = [
    ENDPOINT,
    TRACES_ENDPOINT,
    HEADERS,
    TIMEOUT,
    PROTOCOL,
    SERVICE_NAME,
    RESOURCE,
    SAMPLER,
    SAMPLER_ARG,
    EXPORTER,
    DISABLED,
    QUEUE,
    BATCH,
    DELAY,
];

/// Largest allowed queue: some hundred MiB of spans.
const MOST_QUEUE: u64 = 1 << 18;

/// The trace configuration of this process.
#[derive(Clone, Debug)]
pub(super) struct TraceConfig {
    pub(super) destination: Destination,
    pub(super) service_name: Option<String>,
    pub(super) queue: usize,
    pub(super) batch: usize,
    pub(super) delay: Duration,
    sampler: Sampling,
}

/// The receiver of spans.
#[derive(Clone)]
pub(super) struct Destination {
    pub(super) endpoint: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) timeout: Duration,
}

impl std::fmt::Debug for Destination {
    /// Hides the headers, which hold the receiver's keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
struct Sampling {
    after_parent: bool,
    ratio: f64,
}

impl TraceConfig {
    /// Reads the variables; `None` when traces are off.
    pub(super) fn read(settings: &Settings) -> Result<Option<Self>, Problems> {
        let mut reader = settings.reader();
        // Without a receiver, the other variables are meant for other programs and may hold values that this one does
        // not support.
        let Some(endpoint) = endpoint(&mut reader) else { return reader.finish(None) };
        let word = |text: &str| ["otlp", "none"].into_iter().find(|word| *word == text);
        let wanted =
            reader.parsed(&EXPORTER, word, "otlp or none") != Some("none") && !reader.flag(&DISABLED);
        let _only = reader.parsed(&PROTOCOL, |text| (text == "http/protobuf").then_some(()), "http/protobuf");
        let config = Self {
            destination: Destination {
                endpoint,
                headers: reader.parsed(&HEADERS, headers, "name=value,…").unwrap_or_default(),
                timeout: Duration::from_millis(reader.integer(&TIMEOUT, 1)),
            },
            service_name: reader.optional(&SERVICE_NAME),
            queue: size(&mut reader, &QUEUE),
            batch: size(&mut reader, &BATCH),
            delay: Duration::from_millis(reader.integer(&DELAY, 1)),
            sampler: sampling(&mut reader),
        };
        reader.finish(wanted.then_some(config))
    }

    /// The sampler.
    pub(super) fn sampler(&self) -> Sampler {
        let Sampling { after_parent, ratio } = self.sampler;
        let own = Sampler::TraceIdRatioBased(ratio);
        if after_parent { Sampler::ParentBased(Box::new(own)) } else { own }
    }
}

fn endpoint(reader: &mut Reader<'_>) -> Option<String> {
    let url = |text: &str| {
        let uri: http::Uri = text.parse().ok()?;
        let web = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        web.then(|| text.to_owned())
    };
    let right = "an address such as http://127.0.0.1:4318";
    let whole = reader.parsed(&TRACES_ENDPOINT, url, right);
    let base = reader.parsed(&ENDPOINT, url, right);
    whole.or_else(|| base.map(|base| format!("{}/v1/traces", base.trim_end_matches('/'))))
}

fn headers(text: &str) -> Option<HashMap<String, String>> {
    let pair = |item: String| {
        let (name, value) = item.split_once('=')?;
        let (name, value) = (name.trim(), decoded(value.trim())?);
        let fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && http::HeaderValue::from_str(&value).is_ok();
        fits.then(|| (name.to_owned(), value))
    };
    split_list(text).into_iter().map(pair).collect()
}

/// Percent-decodes a value, as this variable requires.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

fn size(reader: &mut Reader<'_>, variable: &Variable) -> usize {
    usize::try_from(reader.integer(variable, 1).min(MOST_QUEUE)).unwrap_or(usize::MAX)
}

fn sampling(reader: &mut Reader<'_>) -> Sampling {
    let ratio = |text: &str| text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    let ratio = reader.parsed(&SAMPLER_ARG, ratio, "a ratio from 0 to 1").unwrap_or(1.0);
    let named = |text: &str| {
        let (after_parent, own) = text.strip_prefix("parentbased_").map_or((false, text), |own| (true, own));
        let ratio = match own {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio,
            _ => return None,
        };
        Some(Sampling { after_parent, ratio })
    };
    let words = "always_on, always_off or traceidratio, or one of these after parentbased_";
    reader.parsed(&SAMPLER, named, words).unwrap_or(Sampling { after_parent: true, ratio: 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Settings {
        variables.iter().fold(Settings::default(), |settings, (name, value)| settings.with(*name, *value))
    }

    #[test]
    fn nothing_is_traced_unless_there_is_somebody_to_tell() {
        let somebody = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");
        for (variables, endpoint) in [
            (vec![], None),
            (vec![somebody], Some("http://127.0.0.1:4318/v1/traces")),
            (
                vec![somebody, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a.example/x")],
                Some("https://a.example/x"),
            ),
            (vec![somebody, ("OTEL_TRACES_EXPORTER", "none")], None),
            (vec![somebody, ("OTEL_SDK_DISABLED", "true")], None),
            (vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], None),
        ] {
            let config = TraceConfig::read(&with(&variables)).expect("good settings");
            assert_eq!(
                config.map(|config| config.destination.endpoint).as_deref(),
                endpoint,
                "{variables:?}"
            );
        }
    }

    #[test]
    fn headers_are_decoded_and_never_shown() {
        let settings = with(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret, x-tenant = a "),
        ]);
        let config = TraceConfig::read(&settings).expect("good settings").expect("on");
        let header = |name: &str| config.destination.headers.get(name).map(String::as_str);
        assert_eq!((header("authorization"), header("x-tenant")), (Some("Bearer secret"), Some("a")));
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[test]
    fn every_bad_value_is_named() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://a"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.1"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ] {
            let settings = with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a")]).with(name, value);
            let problems = TraceConfig::read(&settings).expect_err(value);
            assert_eq!(problems.0.len(), 1, "{problems}");
            assert_eq!(problems.0[0].name, name);
        }
    }
}
