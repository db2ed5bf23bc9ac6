"""Measurements: CPU time of a process and its children in nanoseconds, resident memory, and the clients."""

import http.client
import re
import resource
import socket
import ssl
import statistics
import subprocess
import time
from pathlib import Path

from peers import ANSWER_BYTES, BIG_BYTES, CIPHER, GROUP, Invalid, on_cores

PATH = "/api/timesheet/v1/entries"
BIG_PATH = "/api/timesheet/v1/big"
# Answered after the whole body was read: an earlier response would end the connection.
UP_PATH = "/api/timesheet/v1/up"
ROUND_LIMIT_S = 180
# A process is idle when it uses less CPU time than this within one pause.
SETTLED_NS, SETTLING_S, SETTLING_ROUNDS = 300_000, 0.05, 20
# Connections, and streams per connection; the load driver has one thread.
LOAD = {"HTTP/1.1": ["-c", "32", "--h1"], "HTTP/2": ["-c", "8", "-m", "16"]}


def cpu_ns(process):
    total = 0
    for task in [task for pid in family(process.pid) for task in Path(f"/proc/{pid}/task").iterdir()]:
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue
    return total


def resident_kb(process):
    """Proportional memory of a process and its children, in which shared pages count once."""
    return sum(pss_kb(pid) for pid in family(process.pid))


def pss_kb(pid):
    return int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])


def family(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(child for each in children for child in family(int(each)))]


def spent_us(process, work, requests):
    """CPU time of the process per request, including the work after the last response, such as closing connections."""
    before = cpu_ns(process)
    work()
    spent = cpu_ns(process)
    for _ in range(SETTLING_ROUNDS):
        time.sleep(SETTLING_S)
        seen, spent = spent, cpu_ns(process)
        if spent - seen < SETTLED_NS:
            break
    return (spent - before) / requests / 1000


def requests_us(process, port, protocol, token, requests):
    command = ["h2load", "-t", "1", "-n", str(requests), *LOAD[protocol], *common(token), address(port, PATH)]
    return spent_us(process, lambda: load(command, requests, ANSWER_BYTES, port, protocol), requests)


def handshakes_us(process, port, token, connections):
    """One connection per request, none resumed."""
    command = ["h2load", "-t", "1", "-n", str(connections), "-c", str(connections), "--h1", *common(token), address(port, PATH)]
    return spent_us(process, lambda: load(command, connections, ANSWER_BYTES, port, "HTTP/1.1"), connections)


def down_us(process, port, token, requests):
    command = ["h2load", "-t", "1", "-n", str(requests), "-c", "8", "--h1", *common(token), address(port, BIG_PATH)]
    return spent_us(process, lambda: load(command, requests, BIG_BYTES, port, "HTTP/1.1"), requests)


def up_us(process, port, token, requests, folder):
    command = ["h2load", "-t", "1", "-n", str(requests), "-c", "8", "--h1", "-d", str(folder / "big/big"),
               *common(token), address(port, UP_PATH)]
    return spent_us(process, lambda: load(command, requests, ANSWER_BYTES, port, "HTTP/1.1"), requests)


def common(token):
    return [f"--tls13-ciphers={CIPHER}", f"--groups={GROUP}", "-H", f"authorization: Bearer {token}"]


def address(port, path):
    return f"https://127.0.0.1:{port}{path}"


def load(command, requests, size, port, protocol):
    ran = subprocess.run(on_cores((1,), command), capture_output=True, text=True, timeout=ROUND_LIMIT_S)
    check(ran.stdout, requests, size, port, protocol)


def check(report, requests, size, port, protocol):
    """Checks that every response is a 200 of the right length, over the agreed cipher."""
    wanted = {
        "answers": rf"requests: {requests} total, {requests} started, {requests} done, {requests} succeeded, 0 failed, 0 errored",
        "status codes": rf"status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx",
        "bytes": rf"\({requests * size}\) data",
        "cipher": rf"Cipher: {CIPHER}",
        "key exchange": rf"Server Temp Key: {GROUP}",
        "protocol": "Application protocol: " + ("http/1.1" if protocol == "HTTP/1.1" else "h2"),
    }
    for what, pattern in wanted.items():
        if not re.search(pattern, report):
            raise Invalid(f"port {port}, {protocol}: wrong {what}\n{report}")


def tokens_us(process, port, tokens):
    """A new token with every request, over one connection after the other."""
    def work():
        with Client(port) as client:
            for token in tokens:
                client.ask(token)
    return spent_us(process, work, len(tokens))


def idle_kb(process, port, token, connections):
    """Memory of an idle connection that has made one request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, connections + 256)), hard))
    with Client(port) as client:
        client.ask(token)
    before = resident_kb(process)
    clients = []
    try:
        for _ in range(connections):
            clients.append(Client(port))
            clients[-1].ask(token)
        time.sleep(1)
        return (resident_kb(process) - before) / connections
    finally:
        for client in clients:
            client.close()
        # Let the proxy forget them before the next figure.
        time.sleep(0.5)


def latency_us(port, token, count, rate, tls=True):
    """Median latency at a fixed rate over one connection."""
    took = []
    with Client(port, tls) as client:
        client.ask(token)
        due = time.perf_counter()
        for _ in range(count):
            due += 1 / rate
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            begun = time.perf_counter()
            client.ask(token)
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e6


class Client:
    """One connection with blocking requests."""

    def __init__(self, port, tls=True):
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["http/1.1"])
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def ask(self, token):
        self.socket.sendall(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.more()
        head, body = answer.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
        while len(body) < length:
            body += self.more()
        if not head.startswith(b"HTTP/1.1 200 ") or length != ANSWER_BYTES:
            raise Invalid(f"port {self.port}: {answer[:300]!r}")

    def more(self):
        if not (part := self.socket.recv(65536)):
            raise Invalid(f"port {self.port}: the connection ended")
        return part

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wait_until_right(ports, token):
    """Waits until each program responds correctly; maps names to ports."""
    deadline = time.monotonic() + 60
    for name, port in ports.items():
        while (wrong := ask(port, token)) is not None:
            if time.monotonic() > deadline:
                raise Invalid(f"{name} does not respond correctly: {wrong}")
            time.sleep(0.05)


def ask(port, token, tls=True):
    """What is wrong with the response, or `None`."""
    context = ssl._create_unverified_context()
    kind = (lambda: http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)) if tls else (
        lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=5))
    connection = kind()
    try:
        connection.request("GET", PATH, headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        return None if (answer.status, len(body)) == (200, ANSWER_BYTES) else f"{answer.status} {body[:200]}"
    except OSError as error:
        return str(error)
    finally:
        connection.close()
