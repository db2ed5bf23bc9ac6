"""The requests: every public read and the common writes, with the expected status, and the goals of some rows. A row sends
the same body repeatedly, so each write must be repeatable."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "loadtests/growth"), str(ROOT / "tests")]
import fill  # noqa: E402
import running  # noqa: E402

# CPU µs per request of gateway, services and PostgreSQL together: HTTP/1.1, sixteen clients, the demo company.
GOALS = {
    "catalog": 80, "capabilities": 80, "summary": 150, "me/companies": 110, "directory": 190, "projects": 200,
    "can": 80, "unit": 170,
}
# With 60 companies and 30 apps, relative to the demo company alone.
LARGER = 1.3
# Rows whose cost grows with their result.
BY_ITS_ANSWER = {"me/companies"}
# Who sends the costly reads. Everyone is a member of the demo company; all but alice are made superadmins.
MEMBERS = ("alice", "bob", "carol", "dave")
ADMINS = ("admin", "bob", "carol", "dave")


@dataclass
class Row:
    name: str
    # One path, or one of each person.
    path: str | dict
    who: tuple = ("alice",)
    body: object = None
    method: str = "GET"
    status: int = 200
    headers: dict = field(default_factory=dict)

    def path_of(self, who):
        return self.path[who] if isinstance(self.path, dict) else self.path

    @property
    def is_write(self):
        return self.method != "GET" and not self.path.startswith(("/api/auth/effective-access", "/access/"))


def costly(name, path, who=MEMBERS):
    return Row(name, path, who)


def post(name, path, body, status=200, who="alice", method="POST"):
    return Row(name, path, (who,), body, method, status)


class Scene:
    """The ids of the demo company's objects."""

    def __init__(self, platform):
        self.platform = platform
        self.people = {who: platform.token(who) for who in MEMBERS}
        self.admin, self.alice = platform.token("admin"), self.people["alice"]
        companies = self.ask("GET", "/api/org/me/companies", token=self.alice)
        self.company = next(one["id"] for one in companies if one["code"] == "NORTHWIND")
        self.subject = running.subject(self.alice)

    def ask(self, method, path, body=None, token=None):
        return self.platform.ask(token or self.admin, method, path, body)

    def first(self, path, token=None):
        found = self.ask("GET", path, token=token)
        return (found["items"] if isinstance(found, dict) else found)[0]

    def make_admins(self):
        for who in ADMINS[1:]:
            body = {"role": "platform-superadmin", "subjectId": running.subject(self.people[who])}
            self.ask("POST", "/api/platform/admin/platform-roles", body)

    def ticket(self, who):
        """A new ticket with a comment."""
        tickets, token = f"{self.module('helpdesk')}/tickets", self.people[who]
        one = self.ask("POST", tickets, {"title": "Load", "description": "Load", "priority": "low"}, token)["id"]
        self.ask("POST", f"{tickets}/{one}/comments", {"body": "Load"}, token)
        return one

    def module(self, key):
        return f"/api/{key}/v1/companies/{self.company}"


def rows(scene, groups, only):
    """The rows of these groups whose names contain a match of `only`."""
    return [row for group in groups for row in GROUPS[group](scene) if re.search(only, row.name)]


def question(scene, relation="viewer", key="timesheet"):
    return {"featureKey": f"{key}.access", "scope": "company", "companyId": scene.company, "moduleKey": key,
            "object": {"type": "company_module", "id": f"{scene.company}/{key}"}, "relation": relation}


def platform(scene):
    access = "/api/auth/effective-access"
    item = {"object": question(scene)["object"], "relation": "member"}
    authzen = {"subject": {"type": "user", "id": scene.subject}, "action": {"name": "member"},
               "resource": {"type": "company_module", "id": f"{scene.company}/timesheet"}}
    tag = scene.platform.tag(scene.alice, "/api/platform/catalog")
    return [
        Row("catalog", "/api/platform/catalog"),
        Row("catalog, not modified", "/api/platform/catalog", status=304, headers={"if-none-match": tag}),
        Row("capabilities", "/api/platform/capabilities"),
        Row("one capability", "/api/platform/capabilities/timesheet"),
        costly("summary", f"{access}/summary?companyId={scene.company}"),
        costly("summary, any company", f"{access}/summary"),
        costly("objects", f"{access}/objects?objectType=docs_document&relation=viewer&companyId={scene.company}"),
        costly("explain", f"{access}/explain?featureKey=timesheet.access&scope=company&moduleKey=timesheet&companyId={scene.company}"
               f"&objectType=company_module&objectId={scene.company}/timesheet&relation=member"),
        post("can", f"{access}/can", question(scene, "member")),
        post("can, denied", f"{access}/can", question(scene, "admin")),
        post("batch-can of 10", f"{access}/batch-can", {"items": [item] * 10}),
        post("AuthZEN evaluation", "/access/v1/evaluation", authzen),
    ]


def organization(scene):
    company, admin = scene.company, "/api/org/admin"
    group = scene.first(f"{admin}/companies/{company}/groups")["id"]
    return [
        Row("me/companies", "/api/org/me/companies"),
        costly("directory", f"/api/org/companies/{company}/members?pageSize=25"),
        costly("directory, searched", f"/api/org/companies/{company}/members?pageSize=25&q=an"),
        costly("by-subject", f"/api/org/companies/{company}/members/by-subject/{scene.subject}", ADMINS),
        Row("unit", f"{admin}/units/{company}", who=("admin",)),
        costly("subtree", f"{admin}/units/{company}/subtree", ADMINS),
        costly("members", f"{admin}/members?companyId={company}", ADMINS),
        costly("positions", f"{admin}/companies/{company}/positions", ADMINS),
        costly("groups", f"{admin}/companies/{company}/groups", ADMINS),
        costly("members of a group", f"{admin}/groups/{group}/members", ADMINS),
    ]


def timesheet(scene):
    timesheet, week = scene.module("timesheet"), running.monday(-1).isoformat()
    return [
        Row("projects", f"{timesheet}/projects"),
        Row("time entries", f"{timesheet}/time-entries?weekStart={week}"),
        costly("submissions", f"{timesheet}/submissions"),
        costly("week overview", f"{timesheet}/weeks/{week}/overview", ADMINS),
    ]


def modules(scene):
    helpdesk, docs, notification = (scene.module(key) for key in ("helpdesk", "docs", "notification"))
    tickets = {who: scene.ticket(who) for who in MEMBERS}
    document = scene.first(f"{docs}/documents", token=scene.alice)["id"]
    return [
        costly("tickets", f"{helpdesk}/tickets"),
        Row("ticket", f"{helpdesk}/tickets/{tickets['alice']}"),
        costly("comments", {who: f"{helpdesk}/tickets/{one}/comments" for who, one in tickets.items()}),
        costly("documents", f"{docs}/documents"),
        Row("document", f"{docs}/documents/{document}"),
        costly("folders", f"{docs}/folders"),
        Row("channels", f"{notification}/channels"),
        costly("messages", f"{notification}/messages"),
        costly("unread count", f"{notification}/messages/unread-count"),
    ]


def writes(scene):
    helpdesk, timesheet = scene.module("helpdesk"), scene.module("timesheet")
    project = scene.first(f"{timesheet}/projects", token=scene.alice)["id"]
    ticket = scene.ticket("alice")
    entry = {"projectId": project, "entryDate": running.monday(0).isoformat(), "realHours": 2}
    member = scene.first(f"/api/org/admin/members?companyId={scene.company}")["id"]
    return [
        post("create a ticket", f"{helpdesk}/tickets", {"title": "Load", "description": "Load", "priority": "low"}, 201),
        post("comment", f"{helpdesk}/tickets/{ticket}/comments", {"body": "Load"}, 201),
        post("time entry", f"{timesheet}/time-entries", entry, method="PUT"),
        post("update a member, nothing changes", f"/api/org/admin/members/{member}", {}, who="admin", method="PUT"),
    ]


GROUPS = {"platform": platform, "organization": organization, "timesheet": timesheet, "modules": modules, "writes": writes}


def grow(scene, companies, apps):
    """Adds companies with the same members, and enabled apps."""
    for number in range(companies):
        company = scene.platform.company(scene.admin, f"LOAD-{number}")
        for who, token in scene.people.items():
            body = {"companyId": company, "code": who, "displayName": who.title()}
            member = scene.ask("POST", "/api/org/admin/members", body)["id"]
            scene.ask("POST", f"/api/org/admin/members/{member}/link-user", {"kcSub": running.subject(token)})
    scene.platform.sql(BACKENDS.format(first=0, last=apps - 1))
    for number in range(apps):
        key = f"load{number}"
        features = [f"{key}.{name}.read" for name in ("things", "plans", "reports")]
        relations = {f"{key}_thing": {"company_module": {"this": True}, "owner": {"this": True},
                                      "viewer": {"union": [{"this": True}, {"computedUserset": "owner"}]}}}
        manifest = {"key": key, "displayName": f"Load {number}", "version": "1.0.0", "serviceClientId": f"{key}-backend",
                    "features": features, "authzFragment": relations}
        scene.ask("POST", "/api/platform/admin/apps", manifest)
        scene.ask("POST", f"/api/platform/admin/modules/{key}/enable")


# The clients of apps' backends, with their accounts, at the provider. Registry looks up unknown ones again and again.
BACKENDS = """
    INSERT INTO idp.clients SELECT 'load' || n || '-backend', 'service', '\\x00', '{{}}', '{{}}', true, now(), now()
      FROM generate_series({first}, {last}) n;
    INSERT INTO idp.users(id, username, service_client, created_at)
      SELECT md5(client_id)::uuid, 'service-account-' || client_id, client_id, now() FROM idp.clients
       WHERE client_id IN (SELECT 'load' || n || '-backend' FROM generate_series({first}, {last}) n);
"""
# The first app's rows with another key, from number {first} on.
APPS = """
    INSERT INTO registry.modules SELECT made.* FROM registry.modules m, generate_series({first}, {last}) n,
      jsonb_populate_record(NULL::registry.modules, replace(to_jsonb(m)::text, 'load0', 'load' || n)::jsonb
        || jsonb_build_object('service_subject', md5('load' || n || '-backend')::uuid)) made WHERE m.key = 'load0';
    INSERT INTO registry.feature_keys(feature_key, key)
      SELECT replace(feature_key, 'load0', 'load' || n), 'load' || n FROM registry.feature_keys, generate_series({first}, {last}) n
       WHERE key = 'load0';
    INSERT INTO registry.object_types(object_type, key)
      SELECT replace(object_type, 'load0', 'load' || n), 'load' || n FROM registry.object_types, generate_series({first}, {last}) n
       WHERE key = 'load0';
    UPDATE registry.model_revision SET revision = revision + 1;
"""


def fill_up(scene, members, tuples, apps, apps_before):
    """Adds members to the demo company, tuples, and further apps, and starts the platform again."""
    fill.fill(scene.platform, "members", scene.company, 1, members)
    fill.fill(scene.platform, "tuples", scene.company, 1, tuples)
    scene.platform.sql(fill.QUIET + (BACKENDS + APPS).format(first=apps_before, last=apps - 1) + fill.KEPT)
    fill.restart(scene.platform)
