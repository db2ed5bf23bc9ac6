// An app's backend that asks for a decision before each action: single decisions, and sometimes a batch of a hundred.
import { check } from "k6";
import { common, post, thresholds } from "./lib.js";

export const options = Object.assign({}, common, {
  scenarios: { decide: { executor: "constant-arrival-rate", rate: Number(__ENV.RATE || 100), timeUnit: "1s", duration: __ENV.DURATION || "30s", preAllocatedVUs: 20, maxVUs: 100 } },
  thresholds: thresholds(250, 1000),
});

const QUESTION = { featureKey: "platform.administration", scope: "global", requiredPlatformRole: "platform-superadmin" };

export default function () {
  const answer = post("/api/auth/effective-access/can", QUESTION);
  check(answer, { "is decided": (it) => it.status === 200 && typeof it.json("data.allowed") === "boolean" });
  if (__ITER % 20 === 0) {
    const items = Array.from({ length: 100 }, (_, number) => ({ object: { type: "member", id: `${number}` }, relation: "member" }));
    const batch = post("/api/auth/effective-access/batch-can", { items });
    check(batch, { "every pair is answered": (it) => it.status === 200 && it.json("data").length === 100 });
  }
}
