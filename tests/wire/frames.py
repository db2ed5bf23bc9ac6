"""Hand-written HTTP/2, for clients that violate the protocol or are faster than a library: frames as bytes, and a connection
that counts responses."""

import select
import ssl
import struct
import time
from collections import Counter

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 2, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW, LARGEST_WINDOW = 65_535, (1 << 31) - 1
LARGEST_FRAME = 16_384
# A peer that accepts nothing for this long has stopped reading.
SEND_LIMIT_S = 5


def frame(kind, flags=0, stream=0, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def reset(stream):
    """RST_STREAM with CANCEL."""
    return frame(RST_STREAM, 0, stream, (8).to_bytes(4, "big"))


def literal(name, value):
    """A header field that is not indexed (RFC 7541, 6.2.2)."""
    return b"\0" + length_of(name) + name + length_of(value) + value


def length_of(text):
    left = len(text) - 127
    if left < 0:
        return bytes([len(text)])
    encoded = b"\x7f"
    while left >= 128:
        encoded += bytes([left % 128 + 128])
        left //= 128
    return encoded + bytes([left])


def head(path, token=None, method="GET", more=()):
    """The header block of a request."""
    fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost"), *more]
    if token:
        fields.append(("authorization", f"Bearer {token}"))
    return b"".join(literal(name.encode(), value.encode()) for name, value in fields)


class Connection:
    """One client connection over a TLS socket. It never blocks for longer than the given time."""

    def __init__(self, stream, window=None):
        import hpack
        self.stream, self.decoder = stream, hpack.Decoder()
        self.stream.setblocking(False)
        self.held, self.next, self.over = b"", 1, False
        # Streams without a complete response, and the send window of each.
        self.open, self.window, self.first_window = {}, DEFAULT_WINDOW, DEFAULT_WINDOW
        self.answers, self.received = Counter(), 0
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def send(self, data):
        view, limit = memoryview(data), time.monotonic() + SEND_LIMIT_S
        while view:
            try:
                view = view[self.stream.send(view):]
            except ssl.SSLWantWriteError:
                if time.monotonic() > limit:
                    raise OSError("the edge takes nothing") from None
                wait(self.stream, select.POLLOUT, 0.5)

    def request(self, block, ended=True):
        """The bytes that open a stream, and its id."""
        number, self.next = self.next, self.next + 2
        self.open[number] = self.first_window
        return number, frame(HEADERS, END_HEADERS | (END_STREAM if ended else 0), number, block)

    def data(self, number, size):
        """A DATA frame of at most `size` bytes, within the windows."""
        size = min(size, self.window, self.open.get(number, 0), LARGEST_FRAME)
        if size <= 0:
            return b""
        self.window -= size
        self.open[number] -= size
        return frame(DATA, 0, number, b"x" * size)

    def reset(self, number):
        self.open.pop(number, None)
        return reset(number)

    def take(self, seconds):
        """Reads for this long; yields the streams that ended, each with its status."""
        if not self.stream.pending():
            wait(self.stream, select.POLLIN, seconds)
        try:
            part = self.stream.recv(1 << 18)
        except ssl.SSLWantReadError:
            return []
        if not part:
            raise OSError("the edge ended the connection")
        self.received += len(part)
        self.held += part
        ended, reply = [], b""
        for kind, flags, number, payload in self.frames():
            reply += self.heard(kind, flags, number, payload, ended)
        if reply:
            self.send(reply)
        return ended

    def frames(self):
        at = 0
        while len(self.held) >= at + 9:
            end = at + 9 + int.from_bytes(self.held[at:at + 3], "big")
            if len(self.held) < end:
                break
            yield self.held[at + 3], self.held[at + 4], int.from_bytes(self.held[at + 5:at + 9], "big"), self.held[at + 9:end]
            at = end
        self.held = self.held[at:]

    def heard(self, kind, flags, number, payload, ended):
        """Handles a frame; returns the bytes to send in reply."""
        if kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == INITIAL_WINDOW_SIZE:
                    self.open = {stream: left + value - self.first_window for stream, left in self.open.items()}
                    self.first_window = value
            return frame(SETTINGS, ACK)
        if kind == PING and not flags & ACK:
            return frame(PING, ACK, payload=payload)
        if kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if number == 0:
                self.window += more
            elif number in self.open:
                self.open[number] += more
        elif kind == HEADERS:
            status = dict(self.decoder.decode(payload)).get(":status")
            if status:
                self.answers[status] += 1
        elif kind == RST_STREAM:
            self.answers["reset"] += 1
        elif kind == GOAWAY:
            self.over = True
            self.answers[f"goaway {int.from_bytes(payload[4:8], 'big')}"] += 1
        if kind == RST_STREAM or kind in (DATA, HEADERS) and flags & END_STREAM:
            if self.open.pop(number, None) is not None:
                ended.append(number)
        return b""


def wait(stream, events, seconds):
    poller = select.poll()
    poller.register(stream, events)
    return poller.poll(seconds * 1000)
