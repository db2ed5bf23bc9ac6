"""A platform that a script starts for itself: with its own ports and data, over real TLS, stopped by its process id.

For scripts in `tests/` and `loadtests/`; uses only Python's standard library.
"""

import base64
import datetime
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START_LIMIT_S = 180


class Broken(Exception):
    """The platform does not start, or gives a response with which the script cannot continue."""


class Platform:
    """A ready `platform up`, as a context manager."""

    def __init__(self, offset):
        self.offset = int(os.environ.get("PLATFORM_PORT_OFFSET", offset))
        self.folder = Path(tempfile.mkdtemp(prefix="platform-script-", dir=os.environ.get("PLATFORM_SCRIPT_DIR")))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.program = program()
        self.environment = {**os.environ, "PLATFORM_PORT_OFFSET": str(self.offset), "PLATFORM_DATA_DIR": str(self.data)}
        self.process = None

    def __enter__(self):
        out = (self.folder / "out").open("w")
        err = (self.folder / "err").open("w")
        self.process = subprocess.Popen([self.program, "up"], env=self.environment, stdout=out, stderr=err)
        begun = time.monotonic()
        while "platform ready" not in (self.folder / "out").read_text():
            if self.process.poll() is not None or time.monotonic() - begun > START_LIMIT_S:
                log = (self.folder / "err").read_text()[-3000:]
                self.__exit__()
                raise Broken(f"not ready:\n{log}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        database = self.data / "pg"
        if database.is_symlink():
            shutil.rmtree(database.resolve(), ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def edge(self):
        return f"https://localhost:{8443 + self.offset}"

    @property
    def ca(self):
        return self.data / "certs/ca.pem"

    def token(self, user):
        """A token from a real login of a development user; valid for five minutes."""
        done = subprocess.run([self.program, "token", "--user", user], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise Broken(f"no token of {user}: {done.stderr}")
        return done.stdout.strip()

    def ask(self, token, method, path, body=None):
        """`data` of a successful response through the gateway."""
        context = ssl.create_default_context(cafile=self.ca)
        connection = http.client.HTTPSConnection("localhost", 8443 + self.offset, context=context, timeout=20)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status not in (200, 201):
            raise Broken(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text)["data"]

    def member(self, admin, company, user, code):
        """Makes a user a member of a company; returns the user's token and member id."""
        token = self.token(user)
        self.ask(token, "GET", "/api/org/me/companies")
        body = {"companyId": company, "code": code, "displayName": f"Member {code}"}
        member = self.ask(admin, "POST", "/api/org/admin/members", body)["id"]
        self.ask(admin, "POST", f"/api/org/admin/members/{member}/link-user", {"kcSub": subject(token)})
        return token, member

    def company(self, admin, code):
        body = {"typeKey": "company", "code": code, "name": f"{code} Corporation"}
        return self.ask(admin, "POST", "/api/org/admin/units", body)["id"]

    def metrics(self, port):
        """What the service at this port, without the offset, tells Prometheus."""
        connection = http.client.HTTPConnection("127.0.0.1", port + self.offset, timeout=20)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def sql(self, text):
        """Runs statements as the superuser of the platform's database; returns their output."""
        password = (self.data / "secrets/db-superuser").read_text().strip()
        address = f"postgres://postgres:{password}@127.0.0.1:{8191 + self.offset}/platform"
        arguments = [psql(), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", address, "-f", "-"]
        done = subprocess.run(arguments, input=text, capture_output=True, text=True)
        if done.returncode:
            raise Broken(f"{done.stderr}\n{text[:2000]}")
        return done.stdout.strip()


def uuid_v7(minute, digest):
    """The SQL of an id as the platform mints them, UUID version 7: the time, here a number of minutes, then random bits."""
    time_ms = f"lpad(to_hex(1700000000000 + ({minute})::bigint * 60000), 12, '0')"
    return f"({time_ms} || '7' || left({digest}, 3) || '8' || right({digest}, 15))::uuid"


def program():
    """The platform's program: PLATFORM_BIN, or the newest build."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    named = os.environ.get("PLATFORM_BIN")
    built = [Path(named)] if named else [target / profile / "platform" for profile in ("dist", "release", "debug")]
    there = [path for path in built if path.is_file()]
    if not there:
        raise Broken("build the platform first: cargo build -p platform")
    return str(max(there, key=lambda path: path.stat().st_mtime))


def psql():
    found = shutil.which("psql") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))), None)
    if not found:
        raise Broken("psql is needed (Debian package postgresql-client)")
    return str(found)


def subject(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["sub"]


def monday(weeks=0):
    """The Monday this many weeks from the current one."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return today - datetime.timedelta(days=today.weekday()) + datetime.timedelta(weeks=weeks)


def fail(problem):
    print(f"not valid: {problem}", file=sys.stderr)
    return 2
