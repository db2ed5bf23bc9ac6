//! Speaks HTTP/2 frame by frame as a case's script says, and reads what comes back. The script's lines:
//!
//! | line | sends |
//! |---|---|
//! | `get 1` | a whole GET of the case's path on stream 1 |
//! | `headers 1 es+eh \| name: value \| …` | HEADERS with these fields, none of them indexed |
//! | `frame 6 0 0 \| 00ff` | a frame of any type, flags and stream, its payload in hexadecimal |
//! | `long 1 \| name: value` | the same with an end of stream, in as many frames as it takes; `pieces 1` a GET in five |
//! | `reset 1`, `made_you_reset 1` | a GET and its reset, by the client or by a rule it breaks |
//! | `bomb 1` | a GET with one long field, repeated by two bytes each |
//! | `raw \| 00ff`, `text \| abc` | bytes outside any frame |
//! | `bare` | as the first line: no preface and no SETTINGS of its own |
//! | `sync` | PING, and waits for its answer |
//! | `100 * LINE` | the line again and again; `$` is the next odd stream |

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::Target;
use super::corpus::{Case, Class};
use super::script::{bytes, unhex};
use crate::client::{Version, tls};
use crate::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    append_length,
};

const PATIENCE: Duration = Duration::from_secs(8);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A field that just fits the dynamic table, and how often it is repeated.
const BOMB_FIELD: usize = 4_000;
const BOMB_COPIES: usize = 8_000;
const CONTINUATION: u8 = 9;
/// The payload of this client's pings.
const ARE_YOU: &[u8; 8] = b"are you?";

pub(super) async fn run(target: &Target, case: &Case) -> Result<(), String> {
    let stream = tls(target.world.tls, &target.world.root, Version::H2).await;
    let (read, write) = tokio::io::split(stream);
    let (synced, pings) = tokio::sync::mpsc::unbounded_channel();
    let script = Script { case, bearer: &target.bearer };
    let sending = script.send(write, pings);
    let reading = timeout(PATIENCE, judge(Reader { stream: read, synced }, case));
    // Both halves live to the end: a client that closes would hide a gateway that does not.
    let (_write, judged) = tokio::join!(sending, reading);
    judged.map_err(|_| "no end in time".to_owned())?
}

/// A case's script, and the state needed to send it.
pub(super) struct Script<'a> {
    pub(super) case: &'a Case,
    pub(super) bearer: &'a str,
}

type Synced = tokio::sync::mpsc::UnboundedSender<()>;
type Pings = tokio::sync::mpsc::UnboundedReceiver<()>;

impl Script<'_> {
    /// Sends every line; stops when the gateway has closed the connection.
    async fn send<W: AsyncWrite + Unpin>(&self, mut write: W, mut pings: Pings) -> W {
        let lines = &self.case.send;
        let bare = lines.first().is_some_and(|line| line == "bare");
        if !bare {
            let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
            let _sent = write.write_all(&hello).await;
        }
        let mut stream = 1;
        for line in lines.iter().skip(usize::from(bare)) {
            let (count, line) = repeated(line);
            for _ in 0..count {
                let line = line.replace('$', &stream.to_string());
                stream += 2;
                let sent = write.write_all(&self.line(&line)).await;
                if sent.is_err() || write.flush().await.is_err() {
                    return write;
                }
                if line == "sync" && pings.recv().await.is_none() {
                    return write;
                }
            }
        }
        if self.case.class == Class::Ignored {
            let _sent = write.write_all(&frame(PING, 0, 0, ARE_YOU)).await;
            let _flushed = write.flush().await;
        }
        write
    }

    /// The bytes of one line.
    pub(super) fn line(&self, line: &str) -> Vec<u8> {
        let (head, rest) = line.split_once(" | ").unwrap_or((line, ""));
        let words: Vec<&str> = head.split(' ').collect();
        match words.as_slice() {
            ["get", stream] => {
                frame(HEADERS, END_STREAM | END_HEADERS, number(stream), &self.block("<pseudo>"))
            }
            ["headers", stream, flags] => frame(HEADERS, flag(flags), number(stream), &self.block(rest)),
            ["long", stream] => in_frames(number(stream), &self.block(rest), 16_000),
            ["pieces", stream] => {
                let block = self.block("<pseudo>");
                in_frames(number(stream), &block, block.len().div_ceil(5))
            }
            ["reset", stream] => {
                let end = frame(RST_STREAM, 0, number(stream), &[0, 0, 0, 8]);
                [self.line(&format!("get {stream}")), end].concat()
            }
            ["made_you_reset", stream] => {
                let nothing = frame(WINDOW_UPDATE, 0, number(stream), &[0; 4]);
                [self.line(&format!("get {stream}")), nothing].concat()
            }
            ["bomb", stream] => {
                let mut block = self.block("<pseudo>");
                block.extend_from_slice(&[0x40, 1, b'a']);
                append_length(&mut block, BOMB_FIELD);
                block.extend(vec![b'a'; BOMB_FIELD]);
                block.extend(vec![0xbe; BOMB_COPIES]);
                in_frames(number(stream), &block, 16_000)
            }
            ["frame", kind, flags, stream] => {
                let kind = u8::try_from(number(kind)).expect("a type");
                frame(kind, flag(flags), number(stream), &unhex(rest))
            }
            ["data", stream, flags] => frame(DATA, flag(flags), number(stream), &bytes(rest, self.bearer)),
            ["raw"] => unhex(rest),
            ["text"] => bytes(rest, self.bearer),
            ["sync"] => frame(PING, 0, 0, ARE_YOU),
            _ => panic!("{}: {line:?} is no line of a script", self.case.id),
        }
    }

    /// Encodes fields as a header block, each literal and not indexed.
    fn block(&self, fields: &str) -> Vec<u8> {
        let pseudo = format!(
            ":method: GET | :scheme: https | :authority: localhost:8443 | :path: {} | authorization: <bearer>",
            self.case.path
        );
        let fields = fields.replace("<pseudo>", &pseudo);
        let mut block = Vec::new();
        for field in fields.split(" | ") {
            let (name, value) = field.split_once(": ").unwrap_or((field, ""));
            block.push(0);
            for text in [bytes(name, self.bearer), bytes(value, self.bearer)] {
                append_length(&mut block, text.len());
                block.extend_from_slice(&text);
            }
        }
        block
    }
}

fn repeated(line: &str) -> (usize, &str) {
    let split = line.split_once(" * ").and_then(|(count, line)| Some((count.parse().ok()?, line)));
    split.unwrap_or((1, line))
}

/// HEADERS and CONTINUATION of at most this many bytes each: a complete request without a body.
fn in_frames(stream: u32, block: &[u8], most: usize) -> Vec<u8> {
    let pieces: Vec<&[u8]> = block.chunks(most).collect();
    let whole = pieces.iter().enumerate().map(|(index, piece)| {
        let end = if index + 1 == pieces.len() { END_HEADERS } else { 0 };
        match index {
            0 => frame(HEADERS, END_STREAM | end, stream, piece),
            _ => frame(CONTINUATION, end, stream, piece),
        }
    });
    whole.collect::<Vec<_>>().concat()
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn flag(text: &str) -> u8 {
    text.split('+').fold(0, |flags, word| {
        flags
            | match word {
                "es" | "ack" => END_STREAM,
                "eh" => END_HEADERS,
                "padded" => 8,
                "priority" => 32,
                "-" => 0,
                other => other.parse().unwrap_or_else(|_| panic!("{other:?} is no flag")),
            }
    })
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads the gateway's frames.
struct Reader<R> {
    stream: R,
    synced: Synced,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// The next frame; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if head[3] == PING && head[4] == ACK {
            let _sender_may_be_done = self.synced.send(());
        }
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }
}

async fn judge<R: AsyncRead + Unpin>(mut reader: Reader<R>, case: &Case) -> Result<(), String> {
    let mut answered = 0;
    let mut status = 0;
    let mut body = Vec::new();
    loop {
        let Some(frame) = reader.next().await else {
            return match case.class {
                Class::Ended | Class::Reset => Ok(()),
                Class::Refused | Class::Declined | Class::Passed | Class::Ignored => {
                    Err("the connection ended".to_owned())
                }
            };
        };
        match (frame.kind, case.class) {
            (GOAWAY, Class::Ended | Class::Reset) | (RST_STREAM, Class::Reset) => return Ok(()),
            (GOAWAY | RST_STREAM, Class::Ignored | Class::Passed) => return Err(format!("{frame:?}")),
            (GOAWAY | RST_STREAM, Class::Refused | Class::Declined) if status == 0 => {
                return Err(format!("{frame:?}"));
            }
            (PING, Class::Ignored) if frame.payload == ARE_YOU => return Ok(()),
            (HEADERS, Class::Reset) => return Err(format!("answered {}", status_of(&frame.payload))),
            (HEADERS, _) => status = status_of(&frame.payload),
            (DATA, _) => body.extend_from_slice(&frame.payload),
            _ => {}
        }
        let ended = matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0;
        if ended && case.class == Class::Passed {
            answered += 1;
            if status != 200 {
                return Err(format!("answered {status} {:?}", String::from_utf8_lossy(&body)));
            }
            if answered == case.reaches.len() {
                return Ok(());
            }
        }
        if ended && matches!(case.class, Class::Refused | Class::Declined) {
            let envelope: Value = serde_json::from_slice(&body).unwrap_or_default();
            let right = case.status.contains(&status) && envelope["error"]["code"].is_string();
            let said = String::from_utf8_lossy(&body).into_owned();
            return if right { Ok(()) } else { Err(format!("answered {status} {said:?}")) };
        }
    }
}

/// The status at the start of a header block: indexed, or a literal with plain or Huffman-coded digits.
fn status_of(block: &[u8]) -> u16 {
    // A size update of the dynamic table may come first.
    let block = match block {
        [first, rest @ ..] if first & 0xe0 == 0x20 => rest,
        block => block,
    };
    match block {
        [first @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)],
        [_, length, rest @ ..] if length & 0x80 == 0 => {
            let digits = rest.get(..usize::from(*length)).unwrap_or_default();
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default()
        }
        [_, length, rest @ ..] => digits(rest.get(..usize::from(length & 0x7f)).unwrap_or_default()),
        _ => 0,
    }
}

/// Digits in Huffman's code of RFC 7541: 0 to 2 have five bits, 3 to 9 six.
fn digits(code: &[u8]) -> u16 {
    let mut bits = code.iter().flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
    let mut number = 0;
    for _ in 0..3 {
        let five = bits.by_ref().take(5).fold(0, |value, bit| value * 2 + bit);
        let digit = if five < 3 { five } else { five * 2 + bits.next().unwrap_or_default() - 22 };
        number = number * 10 + digit;
    }
    number
}

#[test]
fn a_status_is_read_in_every_notation() {
    // 401, 431, 503 in Huffman's code: 011010 00000 00001, 011010 011001 00001, 011011 00000 011001.
    for (block, status) in [
        (&[0x88][..], 200),
        (&[0x20, 0x8c], 400),
        (&[0x48, 0x03, b'4', b'0', b'5'], 405),
        (&[0x48, 0x82, 0b0110_1000, 0b0000_0001], 401),
        (&[0x48, 0x83, 0b0110_1001, 0b1001_0000, 0b1111_1111], 431),
        (&[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111], 503),
    ] {
        assert_eq!(status_of(block), status, "{block:?}");
    }
}
