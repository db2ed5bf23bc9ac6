// Bodies at the foundation's limit and one byte past it: the first are read completely, the second are refused before they
// are read, and neither affects the other.
import http from "k6/http";
import { check } from "k6";
import { BASE, common, headers } from "./lib.js";

export const options = Object.assign({}, common, {
  scenarios: { upload: { executor: "constant-vus", vus: Number(__ENV.VUS || 4), duration: __ENV.DURATION || "30s" } },
  thresholds: { checks: ["rate==1"], "http_req_duration{kind:fits}": ["p(95)<1500"], "http_req_duration{kind:past}": ["p(95)<1500"] },
});

const LIMIT = 1024 * 1024;
const QUESTION = '{"featureKey":"x","scope":"global","requiredPlatformRole":"platform-superadmin","correlationId":"';
const body = (size) => QUESTION + "x".repeat(size - QUESTION.length - 2) + '"}';
const [FITS, PAST] = [body(LIMIT), body(LIMIT + 1)];

export default function () {
  const ask = (text, kind) => http.post(`${BASE}/api/auth/effective-access/can`, text, Object.assign(headers(), { tags: { kind } }));
  // The service refuses an overlong correlation id only after it has read the whole body.
  check(ask(FITS, "fits"), { "at the limit: read": (it) => it.status === 200 || it.status === 400 });
  check(ask(PAST, "past"), { "past it: 413": (it) => it.status === 413 && it.json("error.code") === "PAYLOAD_TOO_LARGE" });
}
