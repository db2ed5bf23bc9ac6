"""Checks in a Prometheus that every scrape of the platform was up and that every metric of the module contract exists.

look.py URL SECONDS DEPLOY: URL of the Prometheus, duration of the scraping, folder of dashboards and alerts.
"""

import glob
import json
import re
import sys
import urllib.parse
import urllib.request

NINE = {"gateway", "registry", "identity", "org", "authz", "timesheet", "notification", "helpdesk", "docs"}
# Name, type, labels besides service, emitted by (module contract, "Metrics").
CATALOGUE = [
    ("http_requests_total", "counter", {"route", "method", "status"}, NINE),
    ("http_request_duration_seconds", "histogram", {"route", "method", "status"}, NINE),
    ("http_requests_in_flight", "gauge", set(), NINE),
    ("platform_build_info", "gauge", {"version", "commit"}, NINE),
    ("platform_db_pool_acquired_conns", "gauge", set(), NINE - {"gateway"}),
    ("platform_db_pool_idle_conns", "gauge", set(), NINE - {"gateway"}),
    ("platform_db_pool_max_conns", "gauge", set(), NINE - {"gateway"}),
    ("platform_authz_decisions_total", "counter", {"reason"}, {"authz"}),
    ("platform_authz_decision_duration_seconds", "histogram", set(), {"authz"}),
    ("platform_delivery_jobs", "gauge", {"state"}, {"notification"}),
    ("platform_delivery_attempts_total", "counter", {"kind", "outcome"}, {"notification"}),
    ("platform_gateway_upstream_requests_total", "counter", {"module", "status"}, {"gateway"}),
    ("platform_gateway_upstream_duration_seconds", "histogram", {"module"}, {"gateway"}),
    ("platform_metrics_scrape_up", "gauge", set(), NINE - {"gateway"}),
]
# Labels that Prometheus adds to every series of the target.
OF_PROMETHEUS = {"__name__", "instance", "job"}


def ask(url, path, **query):
    with urllib.request.urlopen(f"{url}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]


def main(url, seconds, deploy):
    problems = []

    window = f"{seconds}s"
    ups = ask(url, "/api/v1/query", query=f'up{{job="platform"}}[{window}]')["result"]
    values = [value for series in ups for _, value in series["values"]]
    missed = sum(value != "1" for value in values)
    print(f"up: {len(values)} scrapes, {missed} of them not 1")
    if missed or len(values) < int(seconds) // 15 - 2:
        problems.append("the platform was not up at every scrape")
    took = ask(url, "/api/v1/query", query=f'max_over_time(scrape_duration_seconds{{job="platform"}}[{window}])')
    print(f"longest scrape: {took['result'][0]['value'][1]} s")

    tokens = 'http_requests_total{service="gateway",method="POST",route=~".*realms.*",status="200"}'
    renewals = [
        sum(int(after) > int(before) for (_, before), (_, after) in zip(series["values"], series["values"][1:]))
        for series in ask(url, "/api/v1/query", query=f"{tokens}[{window}]")["result"]
    ]
    print(f"tokens issued between two scrapes: {sum(renewals)} times")

    metadata = ask(url, "/api/v1/metadata")
    for name, kind, labels, services in CATALOGUE:
        said = {entry["type"] for entry in metadata.get(name, [])}
        series = name + "_bucket" if kind == "histogram" else name
        found = ask(url, "/api/v1/query", query=series)["result"]
        seen = {frozenset(each["metric"]) - OF_PROMETHEUS for each in found}
        expected = frozenset(labels | {"service"} | ({"le"} if kind == "histogram" else set()))
        by = {each["metric"].get("service") for each in found}
        right = said == {kind} and seen == {expected} and by == services
        print(f"{'ok ' if right else 'BAD'} {name} {sorted(said)} {len(found)} series, labels {sorted(expected)}")
        if not right:
            problems.append(f"{name}: type {said}, labels {seen}, services {by ^ services} differ")

    known = set(ask(url, "/api/v1/label/__name__/values"))
    for path in sorted(glob.glob(f"{deploy}/alerts.yml") + glob.glob(f"{deploy}/dashboards/*.json")):
        names = set(re.findall(r"\b(?:http|platform)_[a-z0-9_]+", expressions(path)))
        for name in sorted(names - known):
            problems.append(f"{path} names {name}, which is not scraped")
        print(f"{path}: {len(names)} metrics, {len(names - known)} unknown")

    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def expressions(path):
    """The queries of a dashboard or of the alert rules, without descriptions."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".json"):
        dashboard = json.loads(text)
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        return "\n".join(queries + [v["query"]["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"])
    lines, inside = [], False
    for line in text.splitlines():
        inside = line.strip().startswith("expr:") or (inside and not re.match(r" {8}\w+:", line))
        lines.extend([line] if inside else [])
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
