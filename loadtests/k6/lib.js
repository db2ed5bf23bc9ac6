// Shared by the scenarios: the platform's address, the token, and the checks of a response.
import http from "k6/http";
import { check } from "k6";

export const BASE = __ENV.BASE || "https://localhost:8443";
const TOKEN = __ENV.TOKEN;

// This machine does not trust the development authority.
export const common = { insecureSkipTLSVerify: true, noConnectionReuse: false, discardResponseBodies: false };

export function headers(more) {
  if (!TOKEN) throw new Error("set TOKEN: platform token --user admin");
  return { headers: Object.assign({ Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" }, more) };
}

export function get(path, name) {
  return right(http.get(`${BASE}${path}`, Object.assign(headers(), { tags: { name: name || path } })));
}

export function post(path, body, name, more) {
  const options = Object.assign(headers(more), { tags: { name: name || path } });
  return right(http.post(`${BASE}${path}`, typeof body === "string" || body instanceof ArrayBuffer ? body : JSON.stringify(body), options));
}

function right(answer) {
  check(answer, {
    "status is 2xx": (it) => it.status >= 200 && it.status < 300,
    "names its request": (it) => it.headers["X-Correlation-Id"] !== undefined,
  });
  return answer;
}

// Every scenario fails on a wrong response. Latency depends on the machine, so each scenario sets its own thresholds.
export function thresholds(p95, p99) {
  return { checks: ["rate==1"], http_req_failed: ["rate==0"], http_req_duration: [`p(95)<${p95}`, `p(99)<${p99}`] };
}
