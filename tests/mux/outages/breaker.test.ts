import { describe, expect, test } from "bun:test";
import { Breaker } from "../../../lib/mux/breaker.ts";

/** What happens at a breaker: a call or the check succeeded or not, or the check is due again. */
type Event = "failed" | "succeeded" | "due" | "away";

/** A breaker without chance, at a clock that only `due` moves; the effect of each event. */
function play(events: readonly Event[], chance = 0) {
  let now = 0;
  const breaker = new Breaker(
    () => now,
    () => chance,
  );
  const told = events.map(event => {
    if (event === "failed") return breaker.failed() ? "check" : "";
    if (event === "succeeded") return breaker.succeeded() ? "closed" : "";
    if (event === "away") return String(breaker.confirmed("no route") ?? "ignored");
    now += breaker.outage?.nextInMs ?? 0;
    breaker.retried();
    return "";
  });
  return { told, breaker };
}

const failures: readonly Event[] = ["failed", "failed", "failed"];
const opened: readonly Event[] = [...failures, "away"];
const again: readonly Event[] = ["due", "away"];

describe("a breaker", () => {
  test.each<[string, readonly Event[], readonly string[], boolean]>([
    ["two failures mean nothing", ["failed", "failed"], ["", ""], false],
    ["three in a row start a check", failures, ["", "", "check"], false],
    ["a success between them restarts the count", ["failed", "failed", "succeeded", "failed"], ["", "", "", ""], false],
    ["only a failed check opens it", opened, ["", "", "check", "1000"], true],
    ["a successful check does not open it", [...failures, "succeeded"], ["", "", "check", ""], false],
    [
      "further failures start no second check",
      [...failures, "failed", "failed", "failed"],
      ["", "", "check", "", "", ""],
      false,
    ],
    [
      "after a successful check, three more failures are needed",
      [...failures, "succeeded", "failed", "failed", "failed"],
      ["", "", "check", "", "", "", "check"],
      false,
    ],
    [
      "a call that succeeds during the check closes it",
      [...failures, "succeeded", "away"],
      ["", "", "check", "", "ignored"],
      false,
    ],
    [
      "further failures change nothing",
      [...opened, "failed", "failed", "failed"],
      ["", "", "check", "1000", "", "", ""],
      true,
    ],
    ["one success closes it", [...opened, "succeeded"], ["", "", "check", "1000", "closed"], false],
    [
      "a failed check that ends after a success does not reopen it",
      [...opened, "due", "succeeded", "away"],
      ["", "", "check", "1000", "", "closed", "ignored"],
      false,
    ],
    [
      "intervals restart after a success",
      [...opened, ...again, "due", "succeeded", ...opened],
      ["", "", "check", "1000", "", "2000", "", "closed", "", "", "check", "1000"],
      true,
    ],
  ])("%s", (_, events, told, open) => {
    const played = play(events);
    expect(played.told).toEqual([...told]);
    expect(played.breaker.outage !== undefined).toBe(open);
  });

  test("doubles the interval each time, up to a minute, and has the time of the first failure", () => {
    const { told, breaker } = play([...opened, ...Array.from({ length: 7 }, () => again).flat()]);
    expect(told.filter(text => Number(text) > 0)).toEqual([
      "1000",
      "2000",
      "4000",
      "8000",
      "16000",
      "32000",
      "60000",
      "60000",
    ]);
    expect(breaker.outage).toEqual({ since: expect.any(Number), nextInMs: 60_000, reason: "no route" });
  });

  test("restarts its intervals when the host accepts connections again, once", () => {
    const { breaker } = play([...opened, ...again, ...again]);
    expect([false, true, true, false, true].map(accepts => breaker.answered(accepts))).toEqual([
      ...[false, true, false, false, true],
    ]);
    breaker.retried();
    expect(breaker.confirmed("no route")).toBe(1_000);
  });

  test("shortens each interval by up to a fifth at random", () => {
    expect(play(opened, 1).told.at(-1)).toBe("800");
  });
});
