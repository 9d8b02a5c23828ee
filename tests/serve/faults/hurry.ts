import { cleanUpMs } from "../../../lib/copies/cleanup.ts";
import { usualTimes } from "../../../lib/copies/lease.ts";

// What a real csimux lets minutes and hours pass for, in seconds; nothing else of it is different. One process runs at a time, so the
// time until one without an owner's heartbeat is taken over may be shorter than the one after which an owner that cannot write gives up.

Object.assign(usualTimes, {
  ...{
    heartbeat: 1_500,
    takeoverAfter: 4_000,
    verifyDelay: 50,
    slowClaimDelay: 3_500,
    firstPause: 50,
    longestPause: 500,
    answerWithin: 400,
  },
});

const wait = globalThis.setTimeout;
globalThis.setTimeout = Object.assign(
  (work: () => void, ms?: number, ...more: unknown[]) => wait(work, ms === cleanUpMs ? 300 : ms, ...more),
  wait,
) as typeof wait;

/** How far the clock is ahead, in milliseconds. */
const ahead = Number(process.env["HURRIED_AHEAD_MS"] ?? 0);
const { now } = Date;
Date.now = () => now() + ahead;
