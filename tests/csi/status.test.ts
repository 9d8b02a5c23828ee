import { describe, expect, test } from "bun:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { CsiError, type Code as Word } from "../../lib/core/errors.ts";
import { toConnectError, wireText } from "../../lib/csi/status.ts";
import { fc } from "../fast-check.ts";

describe("the status of a failure", () => {
  // The numbers of the gRPC status codes, as the CSI specification uses them.
  const numbers: Readonly<Record<Word, number>> = {
    "invalid-argument": 3,
    "deadline-exceeded": 4,
    "not-found": 5,
    "already-exists": 6,
    "permission-denied": 7,
    "resource-exhausted": 8,
    "failed-precondition": 9,
    aborted: 10,
    "out-of-range": 11,
    unimplemented: 12,
    internal: 13,
    unavailable: 14,
    unauthenticated: 16,
  };
  for (const [word, number] of Object.entries(numbers) as [Word, number][]) {
    test(`${word} is ${number}`, () => {
      const error = toConnectError(new CsiError(word, "text"));
      expect([error.code as number, error.rawMessage]).toEqual([number, "text"]);
    });
  }

  test("of an unknown error is INTERNAL and keeps the original as cause only", () => {
    const original = new TypeError("password is hunter2");
    const error = toConnectError(original);
    expect([error.code, error.rawMessage, error.cause]).toEqual([Code.Internal, "internal error", original]);
  });

  test("of a ConnectError is its own", () => {
    const original = new ConnectError("x", Code.DataLoss);
    expect(toConnectError(original)).toBe(original);
  });
});

describe("the text of a status", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 3000 }),
    fc.string({ unit: "binary", maxLength: 9000 }),
    fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 3000 }).map(units => String.fromCharCode(...units)),
  );

  test("always fits and can always be encoded", () => {
    fc.assert(fc.property(text, message => encodeURI(wireText(message)).length <= 4096));
  });

  test("is the whole message where that fits, else its longest head and dots", () => {
    fc.assert(
      fc.property(text, message => {
        const whole = message.toWellFormed();
        const sent = wireText(message);
        if (encodeURI(whole).length <= 4096) return sent === whole;
        const tooLittle = encodeURI(sent).length < 4096 - 12;
        return sent.endsWith("...") && whole.startsWith(sent.slice(0, -3)) && !tooLittle;
      }),
    );
  });
});
