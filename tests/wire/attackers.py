#!/usr/bin/env python3
"""The attackers of `fairness`, each a separate process with a bounded rate. An attacker ends when its standard input does, and
prints its counters."""

import json
import resource
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter

import frames
from bystander import Target, ended_input
from world import request

MODULE = "/api/timesheet/v1"
# Streams that one client opens towards a module: more than its 1,024 slots, over six connections.
CONNECTIONS, STREAMS = 6, 256
BIG = 16 << 20
# New streams per connection and turn: 200 per second on each.
BURST, TURN_S = 10, 0.05
# Streams that are opened and reset at once per turn: more than the gateway tolerates before it checks the client.
FLOOD = 30
# Body bytes per connection and turn.
MOST_SENT = 32 << 10


class Attack:
    """The state and the counters of an attacker."""

    def __init__(self, target):
        self.target, self.stopped = target, threading.Event()
        self.counts, self.lock = Counter(), threading.Lock()

    def note(self, what, count=1):
        with self.lock:
            self.counts[what] += count

    def each(self, count, work):
        """Runs `work(number)` repeatedly in several threads."""
        def run(number):
            while not self.stopped.is_set():
                try:
                    work(number)
                except OSError:
                    self.note("broken off")
                    self.stopped.wait(0.1)
        return [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]

    def http2(self, work, window=None):
        """Runs a turn of `work(connection, state)` every 50 ms on each connection."""
        def run(number):
            with self.target.connect("h2") as stream:
                connection, state = frames.Connection(stream, window), {"number": number}
                self.note("connections")
                try:
                    while not self.stopped.is_set() and not connection.over:
                        due = time.monotonic() + TURN_S
                        work(connection, state)
                        while (left := due - time.monotonic()) > 0:
                            connection.take(left)
                finally:
                    with self.lock:
                        self.counts += Counter({f"answered {status}": count for status, count in connection.answers.items()})
        return run

    def fill(self, connection, block, ended, most=STREAMS, burst=BURST):
        """Opens streams up to a number; returns their ids."""
        fresh, parts = [], []
        while len(connection.open) < most and len(fresh) < burst:
            number, part = connection.request(block, ended)
            fresh.append(number)
            parts.append(part)
        self.note("requests", len(fresh))
        connection.send(b"".join(parts))
        return fresh


class Herd:
    """Connections that are opened at a bounded rate, send something, and are held open; each is reopened when it ends."""

    def __init__(self, attack, size, rate, greeting=b"", tls=True, drip=None, sip=None, receive_buffer=None):
        self.attack, self.size, self.rate, self.greeting, self.tls = attack, size, rate, greeting, tls
        # Bytes that each sends and reads per interval, in seconds.
        self.drip, self.sip, self.receive_buffer = drip, sip, receive_buffer
        self.held, self.fresh, self.under_way = {}, [], 0
        self.openers = 16 if tls else 1

    def threads(self):
        return self.attack.each(self.openers, self.open) + self.attack.each(1, self.hold)

    def open(self, _):
        attack = self.attack
        if len(self.held) + len(self.fresh) + self.under_way >= self.size:
            attack.stopped.wait(0.02)
            return
        due = time.monotonic() + self.openers / self.rate
        self.under_way += 1
        try:
            if self.tls:
                stream = attack.target.connect(receive_buffer=self.receive_buffer)
            else:
                stream = attack.target.connect_plain()
            stream.sendall(self.greeting)
            stream.setblocking(False)
            self.fresh.append(stream)
            attack.note("connections")
        finally:
            self.under_way -= 1
            attack.stopped.wait(max(0, due - time.monotonic()))

    def hold(self, _):
        """Serves all of them in turn, every tenth of a second."""
        poller = select.poll()
        while not self.attack.stopped.wait(0.1):
            while self.fresh:
                stream = self.fresh.pop()
                self.held[stream.fileno()] = (stream, time.monotonic())
                if self.sip is None:
                    poller.register(stream, select.POLLIN | select.POLLHUP)
            for number, _ in poller.poll(0):
                self.hear(number, poller)
            self.attack.counts["held at most"] = max(self.attack.counts["held at most"], len(self.held))
            if self.drip or self.sip:
                self.turn(poller)

    def hear(self, number, poller):
        stream, _ = self.held[number]
        try:
            part = stream.recv(4096)
        except (ssl.SSLWantReadError, BlockingIOError):
            return
        except OSError:
            part = b""
        if part.startswith(b"HTTP/1.1 "):
            self.attack.note(f"answered {part[9:12].decode()}")
        if not part:
            self.leave(number, poller)

    def turn(self, poller):
        now = time.monotonic()
        every = (self.drip or self.sip)[1]
        for number, (stream, last) in list(self.held.items()):
            if now - last < every:
                continue
            self.held[number] = (stream, now)
            try:
                if self.drip:
                    stream.send(self.drip[0])
                    self.attack.note("drips")
                elif not stream.recv(self.sip[0]):
                    self.leave(number, poller)
                else:
                    self.attack.note("sips")
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                pass
            except OSError:
                self.leave(number, poller)

    def leave(self, number, poller):
        if self.sip is None:
            poller.unregister(number)
        stream, _ = self.held.pop(number)
        stream.close()
        self.attack.note("ended by the edge")


def nobody(_attack):
    """Control: no attacker."""
    return []


def crowd(attack):
    """Control: as many requests as an attacker's, all well-behaved, over persistent connections."""
    def http1(_):
        with attack.target.connect() as stream:
            while not attack.stopped.wait(0.02):
                stream.sendall(request(MODULE + "/now", attack.target.token))
                attack.note("answered " + stream.recv(65536)[9:12].decode())

    block = frames.head(MODULE + "/now", attack.target.token)
    return attack.each(4, http1) + attack.each(4, attack.http2(lambda connection, _: attack.fill(connection, block, True)))


def newcomers(attack):
    """Control: well-behaved clients with one connection per request."""
    def one(_):
        due = time.monotonic() + 0.2
        with attack.target.connect() as stream:
            stream.sendall(request(MODULE + "/now", attack.target.token))
            attack.note("answered " + stream.recv(65536)[9:12].decode())
        attack.stopped.wait(max(0, due - time.monotonic()))
    return attack.each(8, one)


def slow_upload(attack):
    """Very slow bodies: with a length, without one, and slightly above the minimum rate after an initial 64 KiB."""
    return upload(attack, MODULE + "/up", attack.target.token, BIG)


def anonymous_upload(attack):
    """The same towards the identity provider, without a token."""
    return upload(attack, "/realms/platform/up", None, 1 << 20)


def authz_upload(attack):
    """The same towards the service that the gateway itself calls."""
    return upload(attack, "/api/auth/grants", attack.target.token, 1 << 20)


def upload(attack, path, token, length):
    long = frames.head(path, token, "POST", [("content-length", str(length))])
    endless = frames.head(path, token, "POST")
    drip, pace, every = 1, 1300, 2

    def turn(connection, state):
        for number in attack.fill(connection, long if state["number"] % 3 == 0 else endless, False):
            state[number] = [time.monotonic() + every, 0]
        now, parts = time.monotonic(), []
        for number in list(connection.open):
            due, sent = state[number]
            paced = state["number"] % 3 == 2
            if paced and sent <= 64 << 10:
                part = connection.data(number, (64 << 10) + 1 - sent) if sum(map(len, parts)) < MOST_SENT else b""
            elif now >= due:
                part = connection.data(number, pace if paced else drip)
                state[number][0] = now + every
            else:
                continue
            state[number][1] += max(0, len(part) - 9)
            parts.append(part)
        attack.note("DATA frames", len(parts))
        connection.send(b"".join(parts))

    lines = request(path, token or "none", "Transfer-Encoding: chunked\r\n").replace(b"GET", b"POST", 1)
    herd = Herd(attack, 200, 40, greeting=lines, drip=(b"1\r\nx\r\n", every))
    return attack.each(CONNECTIONS, attack.http2(turn)) + herd.threads()


def held_bodies(attack):
    """Bodies of 64 KiB that lack their last bytes, on many connections."""
    size, lacking = 64 << 10, 16
    block = frames.head(MODULE + "/up", attack.target.token, "POST", [("content-length", str(size))])

    def turn(connection, state):
        for number in attack.fill(connection, block, False):
            state[number] = size - lacking
        parts = []
        for number in list(connection.open):
            if state[number] and sum(map(len, parts)) < MOST_SENT:
                part = connection.data(number, state[number])
                state[number] -= max(0, len(part) - 9)
                parts.append(part)
        attack.note("KiB", sum(map(len, parts)) >> 10)
        connection.send(b"".join(parts))
    return attack.each(4 * CONNECTIONS, attack.http2(turn))


def slow_reader(attack):
    """Large responses, read a byte at a time."""
    token, path = attack.target.token, f"{MODULE}/down/{BIG}"
    block = frames.head(path, token)

    def turn(connection, state):
        attack.fill(connection, block, True)
        if time.monotonic() >= state.get("due", 0):
            state["due"] = time.monotonic() + 2
            one = (1).to_bytes(4, "big")
            connection.send(b"".join(frames.frame(frames.WINDOW_UPDATE, 0, number, one) for number in connection.open))
            attack.note("windows of one byte", len(connection.open))
    herd = Herd(attack, 200, 40, greeting=request(path, token), sip=(1, 1), receive_buffer=2048)
    return attack.each(CONNECTIONS, attack.http2(turn, window=1)) + herd.threads()


def deaf_reader(attack):
    """Large responses, with open windows but never read."""
    block = frames.head(f"{MODULE}/down/{BIG}", attack.target.token)
    window = struct.pack(">HI", frames.INITIAL_WINDOW_SIZE, frames.LARGEST_WINDOW)
    more = frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW
    greeting = (frames.PREFACE + frames.frame(frames.SETTINGS, payload=window)
                + frames.frame(frames.WINDOW_UPDATE, payload=more.to_bytes(4, "big")))

    def deaf(_):
        with attack.target.connect("h2", receive_buffer=2048) as stream:
            attack.note("connections")
            stream.sendall(greeting)
            for number in range(1, 2 * STREAMS, 2):
                stream.sendall(frames.frame(frames.HEADERS, frames.END_STREAM | frames.END_HEADERS, number, block))
                attack.note("requests")
                attack.stopped.wait(TURN_S / BURST)
            while not attack.stopped.wait(1):
                stream.sendall(frames.frame(frames.PRIORITY, 0, 1, b"\0\0\0\0\x10"))
    return attack.each(CONNECTIONS, deaf)


def stream_hoarder(attack):
    """As many streams as allowed, to a module that answers shortly before the timeout."""
    block = frames.head(MODULE + "/sleep/4500", attack.target.token)
    return attack.each(CONNECTIONS, attack.http2(lambda connection, _: attack.fill(connection, block, True)))


def questions(attack):
    """More streams than authz has slots and queue entries, each of which makes the gateway ask for a role."""
    block = frames.head("/api/org/admin/members", attack.target.token)
    return attack.each(2 * CONNECTIONS, attack.http2(lambda connection, _: attack.fill(connection, block, True)))


def silent_connections(attack):
    """Silent TCP connections, reopened as they end."""
    return Herd(attack, 2000, 1000, tls=False).threads()


def half_hellos(attack):
    """TCP connections with the beginning of a ClientHello, and one more byte now and then."""
    return Herd(attack, 2000, 1000, tls=False, greeting=client_hello()[:200], drip=(b"\0", 3)).threads()


def half_handshakes(attack):
    """TCP connections with a complete ClientHello and nothing after it."""
    return Herd(attack, 512, 120, tls=False, greeting=client_hello()).threads()


def client_hello():
    out, context = ssl.MemoryBIO(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def percent_paths(attack):
    """16 KiB of escaped percent signs, on a hundred concurrent streams."""
    long = "%" + "25" * 8000
    blocks = [frames.head(path + long, None) for path in ("/auth/", "/realms/platform/", "/api/timesheet/v1/")]

    def turn(connection, state):
        if not connection.open:
            block = blocks[state.setdefault("turn", 0) % len(blocks)]
            attack.fill(connection, block, True, 100, burst=100)
            state["turn"] += 1
    return attack.each(1, attack.http2(turn))


def reset_flood(attack):
    """Streams that are reset at once, and streams that are reset while their request is in progress."""
    block = frames.head(MODULE + "/sleep/1000", attack.target.token)

    def at_once(connection, _):
        parts = []
        for _ in range(FLOOD):
            number, part = connection.request(block)
            parts += [part, connection.reset(number)]
        attack.note("resets", FLOOD)
        connection.send(b"".join(parts))

    def under_way(connection, _):
        connection.send(b"".join(connection.reset(number) for number in list(connection.open)))
        attack.note("resets", len(attack.fill(connection, block, True, 20, burst=20)))
    return attack.each(1, attack.http2(at_once)) + attack.each(3, attack.http2(under_way))


def ping_flood(attack):
    """Frames other than requests, with and without an open stream."""
    token = attack.target.token
    upload = frames.head(MODULE + "/up", token, "POST")
    kinds = [(open_stream, name) for open_stream in (False, True) for name in ("PING", "SETTINGS", "WINDOW_UPDATE", "PRIORITY")]
    kinds.append((True, "empty DATA"))
    control = {
        "PING": lambda _: frames.frame(frames.PING, payload=b"12345678"),
        "SETTINGS": lambda _: frames.frame(frames.SETTINGS),
        "WINDOW_UPDATE": lambda _: frames.frame(frames.WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big")),
        "PRIORITY": lambda _: frames.frame(frames.PRIORITY, 0, 2_001, b"\0\0\0\0\x10"),
        "empty DATA": lambda number: frames.frame(frames.DATA, 0, number),
    }
    # Reads the replies here, which is slow.
    many = {"PING": 250, "SETTINGS": 250}

    def turn(connection, state):
        open_stream, name = kinds[state["number"]]
        if open_stream and not connection.open:
            attack.fill(connection, upload, False, 1)
        number = next(iter(connection.open), 0)
        connection.send(control[name](number) * many.get(name, 2_000))
        attack.note(name, many.get(name, 2_000))
    return attack.each(len(kinds), attack.http2(turn))


def hints(attack):
    """A module that sends 103 endlessly, to clients that read and clients that do not."""
    path, token = "/api/docs/v1/hints", attack.target.token
    block = frames.head(path, token)
    reading = attack.http2(lambda connection, _: attack.fill(connection, block, True, 5))

    def deaf(_):
        with attack.target.connect("h2", receive_buffer=2048) as stream:
            stream.sendall(frames.PREFACE + frames.frame(frames.SETTINGS)
                           + b"".join(frames.frame(frames.HEADERS, frames.END_STREAM | frames.END_HEADERS, each, block)
                                       for each in range(1, 10, 2)))
            attack.note("requests", 5)
            attack.stopped.wait(6)
    herd = Herd(attack, 10, 10, greeting=request(path, token), sip=(1, 1), receive_buffer=2048)
    return attack.each(2, reading) + attack.each(8, deaf) + herd.threads()


def tunnels(attack):
    """WebSockets by the thousand, over both protocols."""
    token = attack.target.token
    block = frames.head(MODULE + "/socket", token, "CONNECT", [(":protocol", "websocket"), ("sec-websocket-version", "13")])
    upgrade = ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
    herd = Herd(attack, 300, 40, greeting=request(MODULE + "/socket", token, upgrade))
    return attack.each(CONNECTIONS, attack.http2(lambda connection, _: attack.fill(connection, block, False))) + herd.threads()


def event_streams(attack):
    """Event streams by the thousand."""
    block = frames.head(MODULE + "/events", attack.target.token)
    return attack.each(CONNECTIONS, attack.http2(lambda connection, _: attack.fill(connection, block, True)))


def connections(attack):
    """Idle TLS connections from one address after one request each."""
    return Herd(attack, 1300, 300, greeting=request(MODULE + "/now", attack.target.token)).threads()


KINDS = {work.__name__: work for work in (
    nobody, crowd, newcomers, slow_upload, anonymous_upload, authz_upload, held_bodies, slow_reader, deaf_reader, stream_hoarder, questions, silent_connections, half_hellos, half_handshakes,
    percent_paths, reset_flood, ping_flood, hints, tunnels, event_streams,
    connections)}


def main():
    name, port, source, token, seconds = json.loads(sys.argv[1])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    socket.setdefaulttimeout(10)
    attack = Attack(Target(port, source, token))
    ended = ended_input()
    for thread in KINDS[name](attack):
        thread.start()
    # Nobody has to come for it.
    ended.wait(seconds)
    attack.stopped.set()
    time.sleep(0.3)
    used = resource.getrusage(resource.RUSAGE_SELF)
    with attack.lock:
        print(json.dumps({"counts": attack.counts, "cpu_s": used.ru_utime + used.ru_stime}), flush=True)


if __name__ == "__main__":
    main()
