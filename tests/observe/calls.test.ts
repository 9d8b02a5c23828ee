import { describe, expect, test } from "bun:test";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { onlyKnownNames, toBoth } from "../../lib/observe/names.ts";

const ok = (connection: string | undefined) => ({ connection, code: "ok" as const, message: undefined, seconds: 1 });

/** What an observer gets when calls about these connections arrive, with an object unless it is a bare word. */
function told(
  names: Parameters<typeof onlyKnownNames>[1],
  ...calls: readonly (readonly [string | undefined, string?])[]
) {
  const seen: (string | undefined)[] = [];
  const observe = onlyKnownNames(() => end => void seen.push(end.connection), names);
  for (const [connection, object] of calls)
    observe({ method: "CreateVolume", connection, object })({ ...ok(connection) });
  return seen;
}

describe("the names that are remembered", () => {
  test("are those of connections and groups that there are", () => {
    const known = (name: string) => name === "nas";
    expect(told(() => ({ single: undefined, known }), ["nas", "v"], ["made-up", "v"], [undefined])).toEqual([
      "nas",
      undefined,
      undefined,
    ]);
  });

  test("is the only one where there is only one, for calls about a volume", () => {
    const names = () => ({ single: "main", known: () => true });
    expect(told(names, [undefined, "pvc-1"], ["x", "pvc-2"], [undefined])).toEqual(["main", undefined, undefined]);
  });

  test("are limited in number if the connections are unknown", () => {
    const calls = Array.from({ length: 5_000 }, (_, i) => [`c${i}`, "v"] as const);
    const seen = told(() => ({ single: undefined, known: undefined }), ...calls, ["c1", "v"]);
    expect(new Set(seen.filter(each => each !== undefined)).size).toBe(1_000);
    expect(seen.at(-1)).toBe("c1");
  });
});

test("the ledger knows what runs, and the last success and failure of each connection", () => {
  const ledger = new CallTracker();
  const end = ledger.observe({ method: "CreateVolume", connection: "pool", object: "pvc-1" });
  expect(ledger.running()).toMatchObject([{ method: "CreateVolume", connection: "pool", object: "pvc-1" }]);
  // A group has chosen meanwhile.
  end(ok("nas1"));
  expect(ledger.running()).toEqual([]);
  expect(ledger.names()).toEqual(["nas1"]);
  ledger.observe({ method: "DeleteVolume", connection: "nas1", object: "v" })({
    ...ok("nas1"),
    code: "unavailable",
    message: "no route to host",
  });
  const { success, failure } = ledger.of("nas1");
  expect(success?.method).toBe("CreateVolume");
  expect(failure).toMatchObject({ method: "DeleteVolume", code: "unavailable", message: "no route to host" });
});

test.each([
  ["invalid-argument", false],
  ["not-found", false],
  ["already-exists", false],
  ["out-of-range", false],
  ["aborted", false],
  ["resource-exhausted", false],
  ["failed-precondition", false],
  ["unavailable", true],
  ["deadline-exceeded", true],
  ["unauthenticated", true],
  ["permission-denied", true],
  ["internal", true],
] as const)("a failure with the code %s says something about the storage: %p", (code, says) => {
  const ledger = new CallTracker();
  const ended = (end: typeof code) =>
    ledger.observe({ method: "CreateVolume", connection: "nas", object: "v" })({
      ...ok("nas"),
      code: end,
      message: end,
    });
  ended(code);
  expect(ledger.of("nas").failure?.code).toBe(code);
  expect(ledger.of("nas").storageFailure?.code).toBe(says ? code : undefined);
  // The mistake of another caller hides no failure of the storage.
  ended("invalid-argument");
  expect(ledger.of("nas").storageFailure?.code).toBe(says ? code : undefined);
});

test("two observers get the start and the end of a call", () => {
  const seen: string[] = [];
  const observer = (name: string) => () => {
    seen.push(`${name} begins`);
    return () => void seen.push(`${name} ends`);
  };
  toBoth(observer("a"), observer("b"))({ method: "Probe", connection: undefined, object: undefined })(ok(undefined));
  expect(seen).toEqual(["a begins", "b begins", "a ends", "b ends"]);
});
