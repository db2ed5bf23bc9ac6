//! Malformed requests over HTTP/2 end their own streams and no others (RFC 9113, 8.1.1).

use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, get_block,
};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const PROTOCOL_ERROR: [u8; 4] = 1_u32.to_be_bytes();

/// Fields for which the crate `h2` ends a connection, and those with white space around their values, which it takes; none of
/// them kept in the table; then one that is.
const FIELDS: [&[u8]; 14] = [
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
    b"\x40\x05X-Own\x011",
];

#[tokio::test]
async fn a_malformed_field_ends_its_own_stream_alone() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    // One that is under way meanwhile.
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
    // What was kept is known by its place, and a request that refers to it is malformed as well.
    let block = [&get_block(PATH, &bearer)[..], &[0xbe]].concat();
    frames.send(HEADERS, END_HEADERS | END_STREAM, stream, &block).await;
    assert_eq!(frames.next_of(RST_STREAM, stream).await.payload, PROTOCOL_ERROR);
    frames.send(DATA, END_STREAM, 1, b"body").await;
    frames.next_of(HEADERS, 1).await;
    assert_eq!(world.backend.seen(PATH).len(), FIELDS.len() + 1, "nothing malformed reached the module");
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
