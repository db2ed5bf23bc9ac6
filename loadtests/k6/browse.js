// A front end that browses: capabilities, catalog, companies, permissions.
import { sleep } from "k6";
import { common, get, thresholds } from "./lib.js";

export const options = Object.assign({}, common, {
  scenarios: { browse: { executor: "constant-arrival-rate", rate: Number(__ENV.RATE || 50), timeUnit: "1s", duration: __ENV.DURATION || "30s", preAllocatedVUs: 20, maxVUs: 100 } },
  thresholds: thresholds(250, 1000),
});

export default function () {
  get("/api/platform/capabilities");
  get("/api/platform/catalog");
  get("/api/org/me/companies");
  get("/api/auth/effective-access/summary");
  sleep(0.1);
}
