"""Sends a row's requests by h2load. A subject may have four costly reads at once, so such a row is requested by four people, each
with a quarter of the clients."""

import json
import re
import subprocess
import tempfile
import time
from contextlib import ExitStack

from rows import running

# A development token lives 300 s.
TOKEN_AGE_S = 200
LIMIT_S = 180


class Tokens:
    """Tokens of people, each taken anew before it expires."""

    def __init__(self, platform):
        self.platform, self.kept = platform, {}

    def of(self, who):
        token, since = self.kept.get(who, (None, 0))
        if time.monotonic() - since > TOKEN_AGE_S:
            token, since = self.platform.token(who), time.monotonic()
            self.kept[who] = token, since
        return token


def load(platform, tokens, row, clients, options):
    """The reports of h2load, one process per person, at the same time. `options` returns the further options of a process, given
    the number of its clients and of all."""
    people = row.who if clients >= len(row.who) else row.who[:1]
    each = clients // len(people)
    found = [tokens.of(who) for who in people]
    with ExitStack() as stack:
        text = None if row.body is None else json.dumps(row.body)
        body = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".json"))
        body.write(text or "")
        body.flush()
        started = []
        for who, token in zip(people, found):
            command = ["h2load", "-t", "1", "-c", str(each), "-H", f"authorization: Bearer {token}", *options(each, clients)]
            for name, value in row.headers.items():
                command += ["-H", f"{name}: {value}"]
            if text is not None:
                command += ["-d", body.name, "-H", "content-type: application/json"]
            if row.method not in ("GET", "POST"):
                command += ["-H", f":method: {row.method}"]
            report = stack.enter_context(tempfile.TemporaryFile("w+"))
            address = f"{platform.edge}{row.path_of(who)}"
            started.append((subprocess.Popen([*command, address], stdout=report, stderr=subprocess.STDOUT), report))
        return [report_of(row, process, report) for process, report in started]


def report_of(row, process, report):
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired as late:
        process.kill()
        raise running.Broken(f"{row.name}: h2load does not end") from late
    report.seek(0)
    return report.read()


def responses(reports):
    """Numbers of responses by class of status: 2, 3, 4 and 5."""
    found = [re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", report) for report in reports]
    return {first: sum(int(one[first - 1]) for one in found if one) for first in (2, 3, 4, 5)}
