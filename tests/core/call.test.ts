import { expect, test } from "bun:test";
import { type Call, type Log, withSignal } from "../../lib/core/call.ts";

const log: Log = { debug() {}, info() {}, warn() {}, error() {}, with: () => log };

/** As the server makes calls: a spread loses what they derive, which is not among their own properties. */
class Derived implements Call {
  readonly signal = new AbortController().signal;
  get id(): string {
    return "c-1";
  }
  get log(): Log {
    return log;
  }
  get secrets() {
    return { password: "p" };
  }
}

test("a call with another signal keeps what the server derives when it is asked for", () => {
  const { signal } = new AbortController();
  expect(withSignal(new Derived(), signal)).toEqual({ id: "c-1", log, secrets: { password: "p" }, signal });
});
