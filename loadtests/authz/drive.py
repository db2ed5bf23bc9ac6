#!/usr/bin/env python3
"""Drives one product and measures the CPU time of its server and the database per check.

The driver's own CPU does not count. Everything is on loopback and bounded."""
import argparse, base64, hashlib, http.client, http.server, json, os, random, select, socket, subprocess, sys, threading, time, uuid

HZ = os.sysconf("SC_CLK_TCK")
COMPANY = "01890a5d-ac96-774b-bcce-b302099a8057"


def name(kind, number):
    return str(uuid.UUID(hashlib.md5(f"{kind}{number}".encode()).hexdigest()))


def checks(n, kind, count, seed=7):
    """(relation, document, user, held): half are held, over as many tuples as the kind says; the others ask about a user of
    the same kind who holds the relation on another document."""
    dice, out, m = random.Random(seed), [], n // 125
    level = {"one hop": -1, "three hops": 1, "five hops": 3}[kind]
    for i in range(count):
        d = dice.randrange(n // 10)
        others = [d] if i % 2 else (dice.randrange(n // 10) for _ in range(100))
        numbers = (reach(n, dice, other, level) for other in others)
        number = next((number for number in numbers if i % 2 or not holds(n, d, level, number)), None)
        relation, kind_of_user = ("owner", "u") if level < 0 else ("viewer", f"m{level}-")
        # With few tuples every user of some level views everything, so this is a user in no group.
        user = name(kind_of_user, number) if number is not None else name("x", d)
        out.append((relation, name("d", d), user, bool(i % 2)))
    return out


def reach(n, dice, d, level):
    """A user who owns a document, or who views it as a member of a group of that level."""
    if level < 0:
        return d % (n // 50)
    group, m = (d * 3) % (n // 125), n // 125
    for _ in range(level):
        group = (group * 4 + dice.randrange(4) * 7919) % m
    return (group * 4 + dice.randrange(4)) % (n // 100)


def holds(n, d, level, number):
    """Whether the user does, by the formula of data.sql."""
    if level < 0:
        return d % (n // 50) == number
    m = n // 125
    groups = {(d * 3 + k) % m for k in range(2)}
    for _ in range(level):
        groups = {(group * 4 + k * 7919) % m for group in groups for k in range(4)}
    return any((group * 4 + k) % (n // 100) == number for group in groups for k in range(4))


# ---- tokens -------------------------------------------------------------------------------------------------------
def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """An RSA key, its JWKS on a port, and tokens for any subject."""

    def __init__(self, folder, port):
        self.key = os.path.join(folder, "issuer.pem")
        if not os.path.exists(self.key):
            subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        text = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True)
        modulus = bytes.fromhex(text.stdout.decode().strip().split("=")[1])
        keys = {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "load", "n": b64(modulus), "e": "AQAB"}]}
        body = json.dumps(keys).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.known = {}

    def token(self, subject):
        if subject not in self.known:
            now = int(time.time())
            head = b64(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "load"}).encode())
            claims = {"iss": "https://load.test/realms/platform", "sub": subject, "aud": ["platform-api"],
                      "azp": "platform-frontend", "iat": now, "exp": now + 7200}
            text = f"{head}.{b64(json.dumps(claims).encode())}"
            signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(),
                                    check=True, capture_output=True).stdout
            self.known[subject] = f"{text}.{b64(signed)}"
        return self.known[subject]


# ---- CPU ----------------------------------------------------------------------------------------------------------
def ticks(pid, reaped=False):
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0
    own = int(fields[11]) + int(fields[12])
    return own + (int(fields[13]) + int(fields[14]) if reaped else 0)


def family(postmaster):
    children = [int(p) for p in os.listdir("/proc") if p.isdigit() and parent(p) == postmaster]
    return ticks(postmaster, True) + sum(ticks(child) for child in children)


def parent(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def rss(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024


# ---- products -----------------------------------------------------------------------------------------------------
class Platform:
    def __init__(self, port, issuer):
        self.port, self.issuer, self.path = port, issuer, "/internal/authz/effective-access/"

    def check(self, question):
        relation, doc, user, held = question
        body = {"featureKey": "lt.access", "scope": "company", "companyId": COMPANY, "moduleKey": "lt",
                "object": {"type": "lt_doc", "id": doc}, "relation": relation}
        return "POST", self.path + "can", body, {"authorization": f"Bearer {self.issuer.token(user)}"}, \
            lambda data: data["data"]["allowed"] is held

    def batch(self, questions):
        user = questions[0][2]
        items = [{"object": {"type": "lt_doc", "id": doc}, "relation": relation} for relation, doc, _, _ in questions]
        return "POST", self.path + "batch-can", {"items": items}, {"authorization": f"Bearer {self.issuer.token(user)}"}, \
            lambda data: [one["decision"]["allowed"] for one in data["data"]]


class OpenFga:
    def __init__(self, port, store, model):
        self.port, self.path, self.model = port, f"/stores/{store}/", model

    def key(self, question):
        relation, doc, user, _ = question
        return {"user": f"user:{user}", "relation": relation, "object": f"lt_doc:{doc}"}

    def check(self, question):
        body = {"tuple_key": self.key(question), "authorization_model_id": self.model}
        return "POST", self.path + "check", body, {}, lambda data: data["allowed"] is question[3]

    def batch(self, questions):
        each = [{"tuple_key": self.key(one), "correlation_id": str(i)} for i, one in enumerate(questions)]
        return "POST", self.path + "batch-check", {"checks": each, "authorization_model_id": self.model}, {}, \
            lambda data: [data["result"][str(i)].get("allowed") for i in range(len(questions))]


def encode(product, call):
    """The bytes of a request, built before the measurement."""
    method, path, body, headers, _ = call
    body = json.dumps(body).encode()
    headers = {"host": f"127.0.0.1:{product.port}", "content-type": "application/json", "content-length": len(body), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def whole(answer):
    """The body of a complete response, else nothing."""
    head, end, rest = answer.partition(b"\r\n\r\n")
    if not end:
        return None
    head = head.lower()
    if b"transfer-encoding: chunked" in head:
        if not rest.endswith(b"0\r\n\r\n"):
            return None
        body = b""
        while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
            begin = rest.index(b"\r\n") + 2
            body, rest = body + rest[begin:begin + size], rest[begin + size + 2:]
        return body
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return rest if len(rest) >= length else None


def run(product, calls, clients, server, postmaster):
    """CPU seconds of server and database, and the responses. Keeps this many requests in flight: the driver does little between
    two of them, so that the clients wait for the server and not for each other."""
    requests = {id(call): encode(product, call) for call in calls}
    answers, turn, done = [None] * len(calls), 0, 0
    poll, busy = select.epoll(), {}

    def send(connection):
        nonlocal turn
        if turn < len(calls):
            busy[connection.fileno()] = (connection, turn, bytearray())
            connection.sendall(requests[id(calls[turn])])
            turn += 1

    begun, before = time.time(), (ticks(server), family(postmaster))
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", product.port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(connection, select.EPOLLIN)
        send(connection)
    while done < len(calls):
        ready = poll.poll(60)
        if not ready:
            sys.exit(f"no response in a minute, {done} of {len(calls)} done")
        for number, _ in ready:
            connection, index, answer = busy[number]
            data = connection.recv(1 << 20)
            if not data:
                sys.exit(f"a connection was closed after {done} of {len(calls)} calls: {bytes(answer)[:300]}")
            answer += data
            if (body := whole(bytes(answer))) is not None:
                answers[index] = (bytes(answer[9:12]), body)
                done += 1
                send(connection)
    after = (ticks(server), family(postmaster))
    wall = time.time() - begun
    [connection.close() for connection, _, _ in busy.values()]
    for status, body in answers:
        if status != b"200":
            sys.exit(f"a call failed: {status} {body[:300]}")
    judged = [call[4](json.loads(body)) for call, (_, body) in zip(calls, answers)]
    return (after[0] - before[0]) / HZ, (after[1] - before[1]) / HZ, wall, judged


def measure(product, kind, n, count, clients, args):
    made = [product.check(question) for question in checks(n, kind, min(count, 80))]
    calls = [made[i % len(made)] for i in range(count)]
    run(product, made[:20], 1, args.server, args.postmaster)
    server, database, wall, answers = run(product, calls, clients, args.server, args.postmaster)
    wrong = answers.count(False)
    if wrong:
        sys.exit(f"{kind}: {wrong} of {len(answers)} responses are wrong")
    return {"server_us": server / count * 1e6, "database_us": database / count * 1e6, "wall_s": wall, "count": count}


def measure_batch(product, n, count, args):
    questions = [("viewer", doc, name("m1-", 4), None) for _, doc, _, _ in checks(n, "three hops", 100)]
    call = product.batch(questions)
    run(product, [call], 1, args.server, args.postmaster)
    server, database, wall, answers = run(product, [call] * count, 1, args.server, args.postmaster)
    items = count * 100
    return {"server_us": server / items * 1e6, "database_us": database / items * 1e6, "wall_s": wall, "count": items,
            "answers": "".join({True: "1", False: "0"}.get(answer, "?") for answer in answers[0])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["users", "drive"])
    parser.add_argument("--product", choices=["platform", "openfga"])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--folder")
    parser.add_argument("--port", type=int)
    parser.add_argument("--jwks-port", type=int)
    parser.add_argument("--server", type=int)
    parser.add_argument("--postmaster", type=int)
    parser.add_argument("--store")
    parser.add_argument("--model")
    parser.add_argument("--scale", type=float, default=1.0, help="number of checks, relative to the default")
    parser.add_argument("--quick", action="store_true", help="one client and no batch")
    args = parser.parse_args()
    if args.what == "users":
        users = {name("m1-", 4)}
        for kind in ("one hop", "three hops", "five hops"):
            users |= {user for _, _, user, _ in checks(args.n, kind, 80)}
        for user in sorted(users):
            print(f"INSERT INTO identity.users(kc_sub, kind) VALUES ('{user}', 'user') ON CONFLICT DO NOTHING;")
            print(f"INSERT INTO org.members(id, company_id, code, display_name, user_id) SELECT gen_random_uuid(), "
                  f"'{COMPANY}', '{user}', 'x', '{user}' WHERE NOT EXISTS (SELECT FROM org.members WHERE user_id = '{user}');")
        return
    if args.product == "platform":
        product = Platform(args.port, Issuer(args.folder, args.jwks_port))
        deadline = time.time() + 600
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", args.port, timeout=5)
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
                if 'platform_authz_memory_loaded{service="authz"} 1' in text:
                    break
            except OSError:
                pass
            if time.time() > deadline:
                sys.exit("the graph was not loaded in time")
            time.sleep(0.05)
        values = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                  if line.startswith(("platform_authz_load", "platform_authz_tuples"))}
    else:
        product, values = OpenFga(args.port, args.store, args.model), {}
    counts = {"one hop": 8000, "three hops": 8000, "five hops": 8000}
    if args.product == "openfga":
        counts = {"one hop": 2000, "three hops": 240, "five hops": 80}
    result = {"product": args.product, "n": args.n, "rss": rss(args.server), **values}
    for clients in (1,) if args.quick else (1, 16):
        for kind, count in counts.items():
            result[f"{kind}, {clients} client" + ("s" if clients > 1 else "")] = \
                measure(product, kind, args.n, max(20, int(count * args.scale)), clients, args)
            print(f"{args.product} {kind}, {clients}: {result[list(result)[-1]]}", file=sys.stderr, flush=True)
    if not args.quick:
        result["batch of 100, an item"] = measure_batch(product, args.n, 20 if args.product == "platform" else 4, args)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
