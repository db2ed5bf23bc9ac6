// An hour of mixed load at a low rate; leaks and drift show in the gateway's memory and in the last minutes' latency.
import browse from "./browse.js";
import decide from "./decide.js";
import { common, thresholds } from "./lib.js";

const DURATION = __ENV.DURATION || "1h";
const steady = (exec, rate) => ({ executor: "constant-arrival-rate", exec, rate, timeUnit: "1s", duration: DURATION, preAllocatedVUs: 10, maxVUs: 100 });

export const options = Object.assign({}, common, {
  scenarios: { browse: steady("looking", 5), decide: steady("deciding", 20) },
  thresholds: thresholds(250, 1000),
});

export function looking() { browse(); }
export function deciding() { decide(); }
