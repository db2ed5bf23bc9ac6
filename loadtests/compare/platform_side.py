"""The gateway's surroundings in the comparison: signing keys, tokens, the catalog stream, provisioning."""

import base64
import hashlib
import http.server
import json
import subprocess
import threading
import time

from peers import ISSUER, Invalid

SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


def make_certificate(folder):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))


class Signer:
    """RS256 with a new key, written by hand: thousands of tokens without a process for each."""

    def __init__(self, folder):
        key = folder / "signing.pem"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(key))
        openssl("rsa", "-in", str(key), "-pubout", "-out", str(folder / "public.pem"))
        der = openssl("rsa", "-in", str(key), "-traditional", "-outform", "DER")
        _, self.n, _, _, self.p, self.q, self.dp, self.dq, self.qi = integers(der)
        self.size = (self.n.bit_length() + 7) // 8

    def keys(self):
        return {"keys": [{"kid": "k1", "kty": "RSA", "alg": "RS256", "use": "sig", "e": "AQAB",
                          "n": encoded(self.n.to_bytes(self.size, "big"))}]}

    def token(self, number=0, subject="01890a5d-ac96-774b-bcce-b302099a8057"):
        claims = {"iss": ISSUER, "aud": ["platform-api", "account"], "sub": subject,
                  "exp": int(time.time()) + 7200, "azp": "platform-frontend", "preferred_username": "alice",
                  "name": "Alice Example", "email": "alice@example.test", "scope": "openid profile email",
                  "jti": f"{number:08x}"}
        parts = ({"alg": "RS256", "kid": "k1", "typ": "JWT"}, claims)
        message = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        return f"{message}.{encoded(self.sign(message.encode()))}"

    def sign(self, message):
        digest = SHA256_PREFIX + hashlib.sha256(message).digest()
        padded = b"\0\1" + b"\xff" * (self.size - len(digest) - 3) + b"\0" + digest
        value = int.from_bytes(padded, "big")
        left, right = pow(value, self.dp, self.p), pow(value, self.dq, self.q)
        return (right + ((left - right) * self.qi % self.p) * self.q).to_bytes(self.size, "big")


def integers(der):
    """The integers of a DER sequence."""
    def element(at):
        length, at = der[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(der[at:at + count], "big"), at + count
        return at, length
    at, length = element(0)
    found, end = [], at + length
    while at < end:
        at, length = element(at)
        found.append(int.from_bytes(der[at:at + length], "big"))
        at += length
    return found


class Control(http.server.BaseHTTPRequestHandler):
    """The platform's endpoints that the gateway calls."""

    protocol_version = "HTTP/1.1"
    keys = {}
    modules = ("timesheet",)

    def do_GET(self):
        if self.path == "/certs":
            self.reply(self.keys)
        elif self.path == "/internal/platform/snapshot":
            self.stream()
        elif self.path.startswith("/internal/authz/superadmin/"):
            self.reply({"data": {"held": True, "reason": "ALLOWED", "evidence": []}})
        else:
            self.send_error(404)

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.reply({"data": {"kcSub": question["kcSub"], "created": True}})

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self):
        modules = [{"key": key, "state": "OK", "port": 8160, "missing": []} for key in self.modules]
        line = json.dumps({"revision": 1, "modules": modules, "apps": []}).encode() + b"\n"
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                line = b"\n"
                time.sleep(1)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


def serve_control(port, keys):
    Control.keys = keys
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Control)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


def encoded(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def openssl(*words, stdin=None):
    ran = subprocess.run(["openssl", *words], input=stdin, capture_output=True, timeout=60)
    if ran.returncode != 0:
        raise Invalid(f"openssl {words[0]}: {ran.stderr.decode()}")
    return ran.stdout
