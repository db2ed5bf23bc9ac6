//! Malformed requests over HTTP/2 end their own streams and no others (RFC 9113, 8.1.1).

use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE, frame,
    get_block,
};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const PROTOCOL_ERROR: [u8; 4] = 1_u32.to_be_bytes();
/// RFC 9113, 7.
const ENHANCE_YOUR_CALM: u32 = 11;

/// Fields for which `h2` ends a connection, and fields with white space around their values, which it accepts: first
/// without, then with an entry in the table.
const FIELDS: [&[u8]; 16] = [
    b"\x00\x05X-Own\x011",
    b"\x00\x05x own\x011",
    b"\x00\x00\x011",
    b"\x00\x04x\x00ab\x011",
    b"\x00\x03x-a\x05a\r\nb:",
    b"\x10\x03x-a\x02a\x7f",
    b"\x00\x04:own\x011",
    b"\x02\x04GE T",
    b"\x04\x02/\xff",
    b"\x08\x02no",
    b"\x00\x03x-a\x02 a",
    b"\x00\x03x-a\x02a\t",
    b"\x00\x03x-a\x01 ",
    b"\x40\x00\x011",
    b"\x40\x00\x0512345",
    b"\x40\x05X-Own\x011",
];

#[tokio::test]
async fn a_malformed_field_ends_its_own_stream_alone() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    // Another request runs meanwhile.
    let mut post = get_block(PATH, &bearer);
    post[0] = 0x83;
    frames.send(HEADERS, END_HEADERS, 1, &post).await;
    let mut stream = 3;
    for field in FIELDS {
        let block = [&get_block(PATH, &bearer)[..], field].concat();
        frames.send(HEADERS, END_HEADERS | END_STREAM, stream, &block).await;
        let reset = frames.next_of(RST_STREAM, stream).await;
        assert_eq!(reset.payload, PROTOCOL_ERROR, "{field:?}");
        // The same in pieces, written one by one.
        stream += 2;
        let (beginning, end) = block.split_at(block.len() - 2);
        frames.send(HEADERS, END_STREAM, stream, beginning).await;
        frames.send(CONTINUATION, END_HEADERS, stream, end).await;
        let reset = frames.next_of(RST_STREAM, stream).await;
        assert_eq!(reset.payload, PROTOCOL_ERROR, "{field:?} in two frames");
        stream += 2;
        frames.get(stream, PATH, &bearer).await;
        frames.next_of(HEADERS, stream).await;
        stream += 2;
    }
    // Table entries are referenced by index, and a request that refers to a malformed one is malformed as well.
    let block = [&get_block(PATH, &bearer)[..], &[0xbe]].concat();
    frames.send(HEADERS, END_HEADERS | END_STREAM, stream, &block).await;
    assert_eq!(frames.next_of(RST_STREAM, stream).await.payload, PROTOCOL_ERROR);
    frames.send(DATA, END_STREAM, 1, b"body").await;
    frames.next_of(HEADERS, 1).await;
    assert_eq!(world.backend.seen(PATH).len(), FIELDS.len() + 1, "nothing malformed reached the module");
}

/// Fields that make a message malformed anywhere after a regular one.
const OUT_OF_PLACE: [&[u8]; 12] = [
    b"\x00\x0aconnection\x05close",
    b"\x40\x0aconnection\x05close",
    b"\x00\x0akeep-alive\x011",
    b"\x00\x10proxy-connection\x011",
    b"\x0f\x2a\x07chunked",
    b"\xb9",
    b"\x00\x07upgrade\x03h2c",
    b"\x00\x02te\x04gzip",
    // Pseudo-headers after other fields, including a repeated one.
    b"\x04\x02/b",
    b"\x44\x02/b",
    b"\x82",
    b"\x00\x03x-a\x02 a",
];
/// A well-formed field.
const RIGHT: &[u8] = b"\x00\x02te\x08trailers";

/// The result of a message whose last block is split at these offsets.
async fn answer_to(
    world: &World,
    bearer: &str,
    is_trailer: bool,
    block: &[u8],
    cuts: &[usize],
) -> &'static str {
    let mut frames = Frames::connect(world, 65_535).await;
    if is_trailer {
        let mut post = get_block(PATH, bearer);
        post[0] = 0x83;
        frames.send(HEADERS, END_HEADERS, 1, &post).await;
        frames.send(DATA, 0, 1, b"body").await;
    }
    let (mut kind, mut flags, mut from) = (HEADERS, END_STREAM, 0);
    for to in cuts {
        frames.try_send_raw(&frame(kind, flags, 1, &block[from..*to])).await;
        (kind, flags, from) = (CONTINUATION, 0, *to);
    }
    frames.try_send_raw(&frame(kind, flags | END_HEADERS, 1, &block[from..])).await;
    while let Some(frame) = frames.next().await {
        match (frame.kind, frame.stream) {
            (HEADERS, 1) => return "answered",
            (RST_STREAM, 1) if frame.payload == PROTOCOL_ERROR => {
                return if frames.answers_pings().await { "reset" } else { "reset, and ended" };
            }
            (RST_STREAM, 1) => return "reset with another code",
            (GOAWAY, _) => return "ended",
            _ => {}
        }
    }
    "closed"
}

#[tokio::test]
async fn a_malformed_block_is_found_wherever_it_is_cut() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let end = b"\x00\x05x-end\x0512345";
    let mut wrong = Vec::new();
    for is_trailer in [false, true] {
        let begin = if is_trailer { b"\x00\x01b\x011".to_vec() } else { get_block(PATH, &bearer) };
        for field in OUT_OF_PLACE.into_iter().chain([RIGHT]) {
            let block = [&begin[..], field, end].concat();
            let (field_at, end_at) = (begin.len(), begin.len() + field.len());
            for cuts in [
                vec![],
                // Within the literal after it.
                vec![end_at + 1],
                vec![end_at + 4],
                vec![block.len() - 1],
                // Before, within and after it.
                vec![field_at],
                vec![field_at + 1],
                vec![end_at],
                vec![field_at, end_at],
                vec![end_at, block.len()],
                // Octet by octet, as many as `h2` accepts.
                (end_at + 3..block.len()).collect(),
            ] {
                let answer = answer_to(&world, &bearer, is_trailer, &block, &cuts).await;
                if answer != if field == RIGHT { "answered" } else { "reset" } {
                    let field = String::from_utf8_lossy(field).into_owned();
                    let cuts: Vec<_> = cuts.iter().map(|cut| cut - field_at).collect();
                    wrong.push(format!("{field:?} cut at {cuts:?}, trailer: {is_trailer}: {answer}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

#[tokio::test]
async fn malformed_requests_end_the_connection_in_the_end() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let block = [&get_block(PATH, &bearer)[..], b"\x00\x05X-Own\x011"].concat();
    for (count, ends) in [(100, false), (101, true)] {
        let mut frames = Frames::connect(&world, 65_535).await;
        for stream in (1..).step_by(2).take(count) {
            frames.try_send_raw(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)).await;
        }
        if ends {
            assert_eq!(frames.ended_with().await, Some(ENHANCE_YOUR_CALM), "{count}");
        } else {
            assert!(frames.answers_pings().await, "{count}");
        }
    }
}

#[tokio::test]
async fn a_malformed_trailer_ends_its_own_stream_alone() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut post = get_block(PATH, &bearer);
    post[0] = 0x83;
    let mut stream = 1;
    for trailer in [&b"\x00\x05X-Own\x011"[..], b"\x00\x03x-a\x02 a"] {
        frames.send(HEADERS, END_HEADERS, stream, &post).await;
        frames.send(DATA, 0, stream, b"body").await;
        frames.send(HEADERS, END_HEADERS | END_STREAM, stream, trailer).await;
        assert_eq!(frames.next_of(RST_STREAM, stream).await.payload, PROTOCOL_ERROR, "{trailer:?}");
        stream += 2;
    }
    frames.get(stream, PATH, &bearer).await;
    frames.next_of(HEADERS, stream).await;
    frames.is_alive(&[DATA, WINDOW_UPDATE]).await;
}
