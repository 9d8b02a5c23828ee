import { expect, test } from "bun:test";
import { encodeHandle, idBytes, isConnectionName, parseHandle } from "../../lib/core/handle.ts";

test.each(["a", "A.b_c-9", "a".repeat(63)])("%s may name a connection", name => {
  expect(isConnectionName(name)).toBe(true);
});

test.each(["", ".", "..", "a..b", "-a", "a-", ".a", "a b", "a\n", "\u00fc", "a".repeat(64)])(
  "%j may not name a connection, and no handle names it",
  name => {
    expect(isConnectionName(name)).toBe(false);
    expect(parseHandle(`v:${name}/id`, "volume")).toBeUndefined();
    expect(() => encodeHandle({ kind: "volume", connection: name, id: "id" })).toThrow();
  },
);

test.each(["a", "a".repeat(63)])("the longest id of connection %s fills the 128 bytes of CSI", connection => {
  const id = "x".repeat(idBytes(connection));
  expect(Buffer.byteLength(encodeHandle({ kind: "snapshot", connection, id }))).toBe(128);
});
