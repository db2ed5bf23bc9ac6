#!/usr/bin/env python3
"""The processes that share the gateway with an attacker: `client`, the well-behaved client whose service is measured, and
`module`, the upstream of both. A process ends when its standard input does."""

import asyncio
import base64
import json
import os
import re
import socket
import ssl
import sys
import threading
import time

from load import Http1, Http2
from world import request

# How long a client waits for a connection or a response.
PATIENCE_S = 5
# Requests per second of each kind. Several clients take turns, so that a waiting request does not delay the next measurement.
RATES = {"h1": 25, "h2": 25, "h1 new": 5, "h2 new": 5, "WebSocket": 2}
TURNS = {"h1": 10, "h2": 10, "h1 new": 25, "h2 new": 25, "WebSocket": 10}


def ended_input():
    """Set once standard input has ended."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    return ended


class Target:
    """The gateway as seen by one client, with its own address and token."""

    def __init__(self, port, source, token):
        self.port, self.source, self.token = port, source, token
        self.contexts = {alpn: context(alpn) for alpn in ("h2", "http/1.1")}

    def connect(self, alpn="http/1.1", timeout=PATIENCE_S, receive_buffer=None):
        stream = self.connect_plain(timeout, receive_buffer)
        try:
            return self.contexts[alpn].wrap_socket(stream, server_hostname="localhost")
        except OSError:
            stream.close()
            raise

    def connect_plain(self, timeout=PATIENCE_S, receive_buffer=None):
        stream = socket.socket()
        try:
            if receive_buffer:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.settimeout(timeout)
            stream.bind((self.source, 0))
            stream.connect(("127.0.0.1", self.port))
            return stream
        except OSError:
            stream.close()
            raise


def context(alpn):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_alpn_protocols([alpn])
    return made


class Client:
    """Requests at a steady rate over persistent and new connections."""

    def __init__(self, target, path, kinds):
        self.target, self.path, self.stopped, self.asked = target, path, threading.Event(), []
        self.threads = [threading.Thread(target=self.work, args=(kind, turn), daemon=True) for kind in kinds for turn in range(TURNS[kind])]

    def run(self, until):
        for thread in self.threads:
            thread.start()
        until.wait()
        self.stopped.set()
        for thread in self.threads:
            thread.join(2 * PATIENCE_S)
        return self.asked

    def work(self, kind, turn):
        pause = TURNS[kind] / RATES[kind]
        due, client = time.monotonic() + pause * turn / TURNS[kind], None
        ask = {"h1": self.kept(Http1), "h2": self.kept(Http2), "h1 new": self.new(Http1), "h2 new": self.new(Http2),
               "WebSocket": self.tunnel}[kind]
        while not self.stopped.wait(max(0, due - time.monotonic())):
            begun, problem = time.monotonic(), None
            try:
                client = ask(client)
            except Exception as error:
                client, problem = None, f"{type(error).__name__}: {error}"[:120]
            self.asked.append((kind, begun, time.monotonic() - begun, problem))
            due = max(due + pause, time.monotonic())

    def kept(self, version):
        def ask(client):
            client = client or version(self.target)
            try:
                client.send(self.path)
                client.receive()
            except BaseException:
                client.stream.close()
                raise
            if client.over:
                client.stream.close()
            return None if client.over else client
        return ask

    def new(self, version):
        ask = self.kept(version)
        return lambda _: close(ask(None))

    def tunnel(self, _):
        key = base64.b64encode(os.urandom(16)).decode()
        with self.target.connect() as stream:
            stream.sendall(request(self.path + "/socket", self.target.token, "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                   f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"))
            answer = stream.recv(4096)
            if not answer.startswith(b"HTTP/1.1 101 "):
                raise ValueError(answer.split(b"\r\n")[0].decode())
            stream.sendall(b"ping")
            if stream.recv(64) != b"ping":
                raise ValueError("no echo")


def close(client):
    if client:
        client.stream.close()


class Module(asyncio.Protocol):
    """`…/sleep/<ms>`, `…/down/<bytes>`, `…/up` (reads the body first), `…/hints` (endless 103), `…/events` (endless), upgrades (echoed),
    a slow authz that allows everything; any other path answers `{}` at once."""

    AUTHZ_PAUSE_S = 1
    HELD = b'{"data":{"held":true,"reason":"ALLOWED","evidence":[]}}'

    HINT = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload; as=style; x=%s\r\n\r\n" % (b"x" * 4096)
    # On each connection: this many bytes at once, then a pause. That is 2 MB per second.
    HINTS, HINT_PAUSE_S = 10, 0.02
    EVENT_PAUSE_S = 2
    BLOCK = b"x" * (1 << 16)

    def connection_made(self, transport):
        self.transport, self.held, self.tunnel = transport, b"", False
        self.body, self.chunked, self.left = 0, False, 0
        self.writable = True
        transport.set_write_buffer_limits(high=1 << 16)

    def pause_writing(self):
        self.writable = False

    def resume_writing(self):
        self.writable = True
        # Not from within the transport, which may be closing.
        asyncio.get_running_loop().call_soon(self.produce)

    def data_received(self, data):
        if self.tunnel:
            return self.transport.write(data)
        if self.body or self.chunked:
            return self.upload(data)
        self.held += data
        while b"\r\n\r\n" in self.held:
            text, self.held = self.held.split(b"\r\n\r\n", 1)
            self.begin(text.decode("latin-1"))

    def begin(self, text):
        path = text.split(" ", 2)[1]
        length = re.search(r"^content-length: (\d+)", text, re.I | re.M)
        self.body = int(length[1]) if length else 0
        self.chunked = re.search(r"^transfer-encoding: chunked", text, re.I | re.M) is not None
        if re.search(r"^upgrade: websocket", text, re.I | re.M):
            self.tunnel = True
            self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n" + self.held)
        elif self.body or self.chunked:
            rest, self.held = self.held, b""
            self.upload(rest)
        elif found := re.search(r"/sleep/(\d+)$", path):
            asyncio.get_running_loop().call_later(int(found[1]) / 1000, self.answer)
        elif path.startswith("/internal/authz/superadmin/"):
            asyncio.get_running_loop().call_later(self.AUTHZ_PAUSE_S, self.answer, self.HELD)
        elif found := re.search(r"/down/(\d+)$", path):
            self.left = int(found[1])
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % self.left)
            self.produce()
        elif path.endswith("/hints"):
            self.hint()
        elif path.endswith("/events"):
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            self.event()
        else:
            self.answer()

    def upload(self, data):
        """Bodies consist of letters only, so that the last chunk is unambiguous."""
        if self.chunked:
            self.held = (self.held + data)[-5:]
            if self.held == b"0\r\n\r\n":
                self.chunked, self.held = False, b""
                self.answer()
            return
        self.body -= len(data)
        if self.body <= 0:
            self.body = 0
            self.answer()

    def answer(self, body=b"{}"):
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    def produce(self):
        while self.left > 0 and self.writable and not self.transport.is_closing():
            part = self.BLOCK[:self.left]
            self.left -= len(part)
            self.transport.write(part)

    def hint(self):
        if self.writable and not self.transport.is_closing():
            self.transport.write(self.HINT * self.HINTS)
        if not self.transport.is_closing():
            asyncio.get_running_loop().call_later(self.HINT_PAUSE_S, self.hint)

    def event(self):
        if not self.transport.is_closing():
            self.transport.write(b"9\r\ndata: x\n\n\r\n")
            asyncio.get_running_loop().call_later(self.EVENT_PAUSE_S, self.event)


async def serve_module(ended):
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    # Keeps little data in flight to a client that does not read.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    print(listener.getsockname()[1], flush=True)
    server = await asyncio.get_running_loop().create_server(Module, sock=listener, backlog=4096)
    await asyncio.to_thread(ended.wait)
    server.close()


def main():
    if sys.argv[1] == "module":
        asyncio.run(serve_module(ended_input()))
    else:
        port, source, token, path, kinds = json.loads(sys.argv[2])
        print(json.dumps(Client(Target(port, source, token), path, kinds).run(ended_input())))


if __name__ == "__main__":
    main()
