"""Shared by the scripts of this folder: the gateway with one scripted upstream in place of every module, tokens, and small
clients. Loopback only; stops only what it started."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "loadtests/compare"))

import measure  # noqa: E402
import peers  # noqa: E402
import platform_side  # noqa: E402

MODULES = ("timesheet", "docs", "helpdesk")
EVENTS, EVENT_PAUSE_S = 10, 0.2
BLOCK = b"x" * (1 << 20)
# Socket activation as in systemd: the sockets become descriptors 3 and 4 of the process.
HAND_OVER = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[1:3]]
for place, number in zip((3, 4), high):
    os.dup2(number, place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2")
os.execv(sys.argv[3], sys.argv[3:])
"""


def with_packages(*packages):
    """Re-executes the calling script with these PyPI packages, which are kept in the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "platform-wire"
    if Path(sys.prefix) == home:
        return
    if not (home / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=120)
    subprocess.run([str(home / "bin/pip"), "install", "--quiet", *packages], check=True, timeout=600)
    os.execv(home / "bin/python", [str(home / "bin/python"), *sys.argv])


def go_program(module, name):
    """A program from the Go module proxy, kept in the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "platform-wire-go"
    program = home / "bin" / name
    if not program.exists():
        print(f"building {module}", flush=True)
        subprocess.run(["go", "install", module], check=True, timeout=900, stderr=subprocess.DEVNULL, env={**os.environ, "GOPATH": str(home)})
    return str(program)


def program():
    """The gateway's own program if it is built, else the platform's."""
    named = [Path(os.environ["EDGE"])] if "EDGE" in os.environ else []
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    known = [target / folder / name for folder in ("dist", "release", "debug") for name in ("gateway", "platform")]
    for path in named + known:
        if path.is_file():
            return path
    sys.exit("build it first: cargo build, or name it in EDGE")


class World:
    """A running gateway, its upstream, and the means to call it."""

    def __init__(self, **variables):
        self.folder = Path(tempfile.mkdtemp(prefix="platform-wire-"))
        self.upstream = Upstream()
        self.tls, self.plain, control = peers.free_ports(3)
        platform_side.make_certificate(self.folder)
        self.signer = platform_side.Signer(self.folder)
        platform_side.Control.modules = MODULES
        platform_side.serve_control(control, self.signer.keys())
        self.token = self.signer.token()
        services = {name: f"http://127.0.0.1:{control}" for name in (
            "PLATFORM_REGISTRY_BASE_URL", "PLATFORM_IDENTITY_BASE_URL", "PLATFORM_ORG_BASE_URL", "PLATFORM_AUTHZ_BASE_URL")}
        hosts = {f"PLATFORM_MODULE_HOST_{key.upper()}": f"127.0.0.1:{self.upstream.port}" for key in MODULES}
        self.variables = services | hosts | {
            "PATH": os.environ["PATH"],
            "PLATFORM_LOG": "warn",
            "PLATFORM_EDGE_ADDR": f"127.0.0.1:{self.tls}",
            "PLATFORM_EDGE_PLAIN_ADDR": f"127.0.0.1:{self.plain}",
            "PLATFORM_TLS_CERT": str(self.folder / "cert.pem"),
            "PLATFORM_TLS_KEY": str(self.folder / "key.pem"),
            "PLATFORM_IDP_URL": f"http://127.0.0.1:{self.upstream.port}",
            "IDP_JWKS_URL": f"http://127.0.0.1:{control}/certs",
            "IDP_ISSUER_URL": peers.ISSUER,
        } | variables
        self.process = None
        self.prefix, self.sockets = [], []

    def with_files(self, count):
        """Limits the gateway's open files."""
        self.prefix = ["prlimit", f"--nofile={count}:{count}"]
        return self

    def handed(self):
        """Hands bound sockets to the gateway and to its successors."""
        self.sockets = [socket.create_server(("127.0.0.1", port), backlog=1024) for port in (self.tls, self.plain)]
        numbers = [str(each.fileno()) for each in self.sockets]
        self.prefix = [sys.executable, "-c", HAND_OVER, *numbers]
        return self

    def start(self):
        log = (self.folder / "edge.log").open("ab")
        command = [*self.prefix, *peers.edge_command(program())]
        self.process = subprocess.Popen(command, env=self.variables, cwd=self.folder, stdin=subprocess.DEVNULL,
                                        stdout=log, stderr=log, pass_fds=[each.fileno() for each in self.sockets])
        self.wait_until_ready()
        return self

    def wait_until_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while measure_status(self.tls) != 200:
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit("the edge does not get ready:\n" + (self.folder / "edge.log").read_text()[-2000:])
            time.sleep(0.05)

    def get(self, path):
        """One request over a new connection: its status and body."""
        with self.connect() as stream:
            stream.sendall(request(path, self.token, "Connection: close\r\n"))
            answer = b"".join(iter(lambda: stream.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def connect(self, alpn="http/1.1"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([alpn])
        stream = socket.create_connection(("127.0.0.1", self.tls), timeout=30)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(stream, server_hostname="localhost")

    def resident_kb(self):
        return measure.resident_kb(self.process)

    def stop(self):
        if self.process and self.process.poll() is None:
            peers.stop(self.process)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        for each in self.sockets:
            each.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure_status(port):
    """Status of `/readyz`; `None` without a response."""
    context = ssl._create_unverified_context()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as stream:
            with context.wrap_socket(stream, server_hostname="localhost") as secured:
                secured.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return int(secured.recv(64).split()[1])
    except (OSError, IndexError, ValueError):
        return None


def request(path, token, more=""):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n".encode()


class Upstream:
    """Answers by path: `…/sleep/<ms>`, `…/down/<bytes>`, `…/up`, `…/events`, a WebSocket echo; any other path `{}`."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.requests = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            stream, _ = self.listener.accept()
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        held = b""
        try:
            while True:
                while b"\r\n\r\n" not in held:
                    part = stream.recv(65536)
                    if not part:
                        return
                    held += part
                head, held = held.split(b"\r\n\r\n", 1)
                held = self.answer(stream, head.decode("latin-1"), held)
        except OSError:
            pass
        finally:
            stream.close()

    def answer(self, stream, head, held):
        method, path, _ = head.split("\r\n")[0].split(" ")
        self.requests.append((method, path))
        if re.search(r"^upgrade: websocket", head, re.I | re.M):
            return echo(stream, head, held)
        received, held = read_body(stream, head, held)
        if found := re.search(r"/down/(\d+)$", path):
            size = int(found[1])
            stream.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {size}\r\n\r\n".encode())
            while size > 0:
                stream.sendall(memoryview(BLOCK)[:min(size, len(BLOCK))])
                size -= len(BLOCK)
        elif path.endswith("/events"):
            stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for number in range(EVENTS):
                event = f"data: {number}\n\n".encode()
                stream.sendall(b"%x\r\n%s\r\n" % (len(event), event))
                time.sleep(EVENT_PAUSE_S)
            stream.sendall(b"0\r\n\r\n")
        else:
            if found := re.search(r"/sleep/(\d+)$", path):
                time.sleep(int(found[1]) / 1000)
            body = f'{{"received":{received}}}'.encode()
            stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        return held


def read_body(stream, head, held):
    """The length of the body, and the bytes after it."""
    if re.search(r"^transfer-encoding: chunked", head, re.I | re.M):
        total = 0
        while True:
            while b"\r\n" not in held:
                held += stream.recv(65536)
            size, held = held.split(b"\r\n", 1)
            if size.strip(b"0") == b"":
                return total, after_trailers(stream, held)
            left = int(size, 16) + 2
            total += left - 2
            while len(held) < left:
                left -= len(held)
                held = stream.recv(1 << 20)
                if not held:
                    raise OSError("half a body")
            held = held[left:]
    found = re.search(r"^content-length: (\d+)", head, re.I | re.M)
    left = total = int(found[1]) if found else 0
    if left <= len(held):
        return total, held[left:]
    left -= len(held)
    buffer = memoryview(bytearray(1 << 20))
    while left > 0:
        read = stream.recv_into(buffer, min(left, len(buffer)))
        if read == 0:
            raise OSError("half a body")
        left -= read
    return total, b""


def after_trailers(stream, held):
    while True:
        while b"\r\n" not in held:
            held += stream.recv(65536)
        line, held = held.split(b"\r\n", 1)
        if not line:
            return held


def echo(stream, head, held):
    """Hand-written RFC 6455: the handshake, then every client frame is echoed unmasked."""
    import base64
    import hashlib
    key = re.search(r"^sec-websocket-key: (\S+)", head, re.I | re.M)[1]
    accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    stream.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())

    def take(count):
        nonlocal held
        while len(held) < count:
            part = stream.recv(65536)
            if not part:
                raise OSError("the client left")
            held += part
        taken, held = held[:count], held[count:]
        return taken
    while True:
        first, second = take(2)
        length = second & 0x7F
        if length == 126:
            length = int.from_bytes(take(2), "big")
        elif length == 127:
            length = int.from_bytes(take(8), "big")
        mask = take(4)
        whole = mask * (length // 4 + 1)
        data = (int.from_bytes(take(length), "big") ^ int.from_bytes(whole[:length], "big")).to_bytes(length, "big")
        size = bytes([length]) if length < 126 else (b"\x7e" + length.to_bytes(2, "big") if length < 65536 else b"\x7f" + length.to_bytes(8, "big"))
        stream.sendall(bytes([first]) + size + data)
        if first & 0xF == 8:
            raise OSError("closed")


class Report:
    """Lines with a verdict each; the exit code tells whether all passed."""

    def __init__(self):
        self.failed = 0

    def line(self, what, right, figures=""):
        self.failed += not right
        print(f"{'ok    ' if right else 'FAILED'} {what}: {figures}", flush=True)

    def end(self):
        sys.exit(1 if self.failed else 0)
