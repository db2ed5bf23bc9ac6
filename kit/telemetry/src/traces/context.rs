//! W3C trace context on the wire: reads it from a request's headers and writes it to those of the next request. It
//! invents nothing: a request without a valid `traceparent` has no context, and its `tracestate` is ignored.

use std::str::FromStr;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `00-<32 hex>-<16 hex>-<2 hex>`; a later version may append more after another dash.
const LENGTH: usize = 55;
/// The length of `tracestate` that a vendor must propagate; a longer one is dropped.
const MOST_STATE: usize = 512;

/// The sender's context: exactly one well-formed `traceparent`.
#[must_use]
pub fn accept(headers: &HeaderMap) -> Option<SpanContext> {
    let mut sent = headers.get_all(TRACEPARENT).iter();
    let (Some(parent), None) = (sent.next(), sent.next()) else { return None };
    let (trace, span, flags) = parse(parent.as_bytes())?;
    Some(SpanContext::new(trace, span, flags, true, state(headers)))
}

/// Writes the context, replacing any other in the headers.
pub fn write(context: &SpanContext, headers: &mut HeaderMap) {
    if !context.is_valid() {
        return;
    }
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    let parent = format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), flags);
    if let Ok(parent) = HeaderValue::from_str(&parent) {
        headers.insert(TRACEPARENT, parent);
    }
    let state = context.trace_state().header();
    match HeaderValue::from_str(&state) {
        Ok(value) if !state.is_empty() => drop(headers.insert(TRACESTATE, value)),
        _ => drop(headers.remove(TRACESTATE)),
    }
}

/// Accepts lower-case hexadecimal only, and neither all-zero ids nor the invalid version `ff`.
fn parse(text: &[u8]) -> Option<(TraceId, SpanId, TraceFlags)> {
    let (fixed, rest) = text.split_at_checked(LENGTH)?;
    let mut fields = fixed.split(|byte| *byte == b'-');
    let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let whole = fields.next().is_none()
        && (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2)
        && (rest.is_empty() || (version != b"00" && rest.starts_with(b"-")));
    let version = hexadecimal(version)?;
    if !whole || version == 0xff {
        return None;
    }
    let trace = TraceId::from_bytes(hexadecimal(trace)?.to_be_bytes());
    let span = SpanId::from_bytes(u64::try_from(hexadecimal(span)?).ok()?.to_be_bytes());
    let flags = TraceFlags::new(u8::try_from(hexadecimal(flags)?).ok()?) & TraceFlags::SAMPLED;
    (trace != TraceId::INVALID && span != SpanId::INVALID).then_some((trace, span, flags))
}

fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some((number << 4) | u128::from(digit))
    })
}

/// The vendors' state; a list that is malformed or too long is dropped as a whole.
fn state(headers: &HeaderMap) -> TraceState {
    let mut sent = headers.get_all(TRACESTATE).iter().map(HeaderValue::to_str);
    let Some(first) = sent.next() else { return TraceState::NONE };
    let joined = sent.try_fold(first.map(ToOwned::to_owned), |joined, next| match (joined, next) {
        (Ok(joined), Ok(next)) if joined.len() <= MOST_STATE => Some(Ok(format!("{joined},{next}"))),
        _ => None,
    });
    let fits = joined.and_then(Result::ok).filter(|joined| joined.len() <= MOST_STATE);
    fits.and_then(|text| TraceState::from_str(&text).ok()).unwrap_or(TraceState::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(parents: &[&str], states: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, values) in [(TRACEPARENT, parents), (TRACESTATE, states)] {
            for value in values {
                headers.append(name.clone(), HeaderValue::from_str(value).expect("a value"));
            }
        }
        headers
    }

    #[test]
    fn a_well_formed_parent_is_taken_and_of_its_flags_only_the_known() {
        let later = format!("cc{}-what-the-future-brings", GOOD.strip_prefix("00").expect("a version"));
        let unsampled = GOOD.replace("-01", "-00");
        for (text, sampled) in
            [(GOOD, true), (&GOOD.replace("-01", "-ff"), true), (&unsampled, false), (&later, true)]
        {
            let context = accept(&headers(&[text], &[])).expect(text);
            assert_eq!((context.trace_id().to_string().as_str(), context.is_sampled()), (TRACE, sampled));
            assert!(context.is_remote());
        }
    }

    #[test]
    fn what_is_malformed_is_no_context() {
        let upper = GOOD.to_uppercase();
        let long = format!("{GOOD}-more");
        let dash = format!("01{}x", GOOD.strip_prefix("00").expect("a version"));
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-010",
            "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
            "0-04bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            upper.as_str(),
            long.as_str(),
            dash.as_str(),
        ] {
            assert_eq!(accept(&headers(&[bad], &["a=1"])), None, "{bad}");
        }
        assert_eq!(accept(&headers(&[GOOD, GOOD], &[])), None, "two are none");
    }

    #[test]
    fn a_context_goes_out_as_it_came_in_with_what_vendors_keep() {
        for (sent, passed) in [
            (vec![], None),
            (vec!["a=1,b=2"], Some("a=1,b=2")),
            (vec!["a=1", "b=2"], Some("a=1,b=2")),
            (vec!["no list"], None),
            (vec![&*format!("a={}", "x".repeat(MOST_STATE))], None),
        ] {
            let context = accept(&headers(&[GOOD], &sent)).expect("a context");
            let mut out = headers(&["another"], &["c=3"]);
            write(&context, &mut out);
            assert_eq!(out.get(TRACEPARENT).and_then(|value| value.to_str().ok()), Some(GOOD));
            assert_eq!(out.get(TRACESTATE).and_then(|value| value.to_str().ok()), passed, "{sent:?}");
        }
    }
}
