"""Well-behaved clients at a steady rate over HTTP/1.1 and HTTP/2, each with its own connection."""

import dataclasses
import threading
import time

from world import request

WORKERS = 10


@dataclasses.dataclass
class Asked:
    """One request: when it was sent completely, and its result."""

    version: str
    sent: float
    took: float
    problem: str | None


class Load:
    """`rate` requests per second, half over each protocol, until stopped."""

    def __init__(self, world, path, rate=200):
        self.world, self.path, self.pause = world, path, 2 * WORKERS / rate
        self.stopped, self.asked, self.refused = threading.Event(), [], 0
        kinds = [(Http1, "h1"), (Http2, "h2")]
        self.threads = [threading.Thread(target=self.work, args=(kind, version, number), daemon=True)
                        for kind, version in kinds for number in range(WORKERS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(60)

    def work(self, kind, version, number):
        client = None
        time.sleep(self.pause * number / WORKERS)
        due = time.monotonic()
        while not self.stopped.wait(max(0, due - time.monotonic())):
            due = max(due + self.pause, time.monotonic() - 1)
            try:
                if client is None:
                    client = kind(self.world)
            except OSError:
                # Not begun: there is no connection.
                self.refused += 1
                client = None
                continue
            sent = None
            try:
                client.send(self.path)
                sent = time.monotonic()
                client.receive()
                self.asked.append(Asked(version, sent, time.monotonic() - sent, None))
            except (OSError, ValueError, IndexError) as error:
                if sent is not None:
                    self.asked.append(Asked(version, sent, time.monotonic() - sent, f"{type(error).__name__}: {error}"))
                client.stream.close()
                client = None
                continue
            if client.over:
                client.stream.close()
                client = None

    def failed(self, since=0.0, until=float("inf")):
        return [asked for asked in self.asked if asked.problem and since <= asked.sent < until]

    def count(self, since=0.0, until=float("inf")):
        return sum(since <= asked.sent < until for asked in self.asked)


class Http1:
    """One request after the other."""

    def __init__(self, world):
        self.stream, self.token, self.over = world.connect(), world.token, False

    def send(self, path):
        self.stream.sendall(request(path, self.token))

    def receive(self):
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.more()
        head, body = answer.split(b"\r\n\r\n", 1)
        lower = head.lower()
        length = int(lower.split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += self.more()
        if not head.startswith(b"HTTP/1.1 200 "):
            raise ValueError(head.split(b"\r\n")[0].decode() + " " + body.decode(errors="replace"))
        self.over = b"connection: close" in lower

    def more(self):
        part = self.stream.recv(65536)
        if not part:
            raise OSError("the connection ended")
        return part


class Http2:
    """One request after the other, each on a new stream; obeys GOAWAY."""

    def __init__(self, world):
        import h2.config
        import h2.connection
        import h2.events
        import hyperframe.frame
        self.events = h2.events
        self.token, self.over = world.token, False
        self.stream = world.connect("h2")
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.connection.initiate_connection()
        self.stream.sendall(self.connection.data_to_send())
        self.connection._frame_dispatch_table[hyperframe.frame.GoAwayFrame] = self.goodbye
        self.number = None

    def send(self, path):
        self.number = self.connection.get_next_available_stream_id()
        self.connection.send_headers(self.number, [
            (":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path),
            ("authorization", f"Bearer {self.token}")], end_stream=True)
        self.stream.sendall(self.connection.data_to_send())

    def receive(self):
        status = None
        while True:
            part = self.stream.recv(65536)
            if not part:
                raise OSError("the connection ended")
            for event in self.receive_data(part):
                if getattr(event, "stream_id", None) not in (None, self.number):
                    continue
                if isinstance(event, self.events.ResponseReceived):
                    headers = {str(name, "ascii") if isinstance(name, bytes) else name: value for name, value in event.headers}
                    status = int(headers[":status"])
                elif isinstance(event, self.events.StreamReset):
                    raise ValueError(f"reset {event.error_code}")
                elif isinstance(event, self.events.StreamEnded):
                    if status != 200:
                        raise ValueError(f"answered {status}")
                    return

    def receive_data(self, part):
        found = self.connection.receive_data(part)
        for event in found:
            if isinstance(event, self.events.DataReceived):
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        pending = self.connection.data_to_send()
        if pending:
            self.stream.sendall(pending)
        return found

    def goodbye(self, _frame):
        """`h2` closes a connection at a GOAWAY; open streams are still answered."""
        self.over = True
        return [], []
