import { afterAll, beforeAll, expect, test } from "bun:test";
import type { DescField, DescMessage, DescMethodUnary } from "@bufbuild/protobuf";
import { Controller, Identity, Node } from "../../../lib/csi/gen/csi/v1/csi_pb.ts";
import { fc } from "../../fast-check.ts";
import { everything } from "../../sample.ts";
import { World } from "../world.ts";

let world: World;
beforeAll(async () => {
  world = await World.start();
  await world.create("pvc-1");
  await world.controller("createSnapshot", { sourceVolumeId: "v:one/pvc-1", name: "snap-1" });
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

/** Codes that CSI allows somewhere; INTERNAL and UNKNOWN would be a defect of ours. */
const allowed = new Set([0, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16]);

const words = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      "",
      "one",
      "two",
      "v:one/pvc-1",
      "s:one/f/snap-1",
      "v:one/nothing",
      "pvc-1",
      "snap-1",
      "n1",
    ),
  },
  fc.constantFrom(
    "v:one/..",
    "v:one/../../etc",
    "s:one/../v/pvc-1",
    "v:absent/x",
    "../x",
    "a/b",
    "/",
    "..",
    "\u0000",
    "\u{1F4A5}",
    "x".repeat(300),
  ),
  fc.constantFrom(
    "snapshot_driver=filecopy&snapshot_id=..",
    "s:one/snapshot_driver=restic&snapshot_id=1",
    "%",
    "-rf",
    "$(reboot)",
  ),
  fc.string({ unit: "grapheme", maxLength: 40 }),
);
/** Paths that a node call may name: never one that exists outside the sandbox. */
const paths = () =>
  fc.oneof(
    words,
    fc.constantFrom("a", "b", "c/d").map(part => `${world.sandbox.folder}/fuzz/${part}`),
  );

const values = (field: DescField, depth: number): fc.Arbitrary<unknown> => {
  if (field.fieldKind === "map")
    return fc
      .dictionary(
        words.filter(key => key !== "__proto__"),
        words,
        { maxKeys: 3 },
      )
      .chain(map => maybeKnown(map));
  if (field.fieldKind === "list")
    return fc.array<unknown>(field.listKind === "message" ? message(field.message, depth - 1) : words, {
      maxLength: 3,
    });
  if (field.fieldKind === "message") return message(field.message, depth - 1);
  if (field.fieldKind === "enum") return fc.integer({ min: -1, max: 9 });
  if (field.name.endsWith("_path")) return paths();
  if (field.scalar === 9) return words;
  if (field.scalar === 8) return fc.boolean();
  if (field.scalar === 3)
    return fc.oneof(
      fc.constantFrom(0n, -1n, 1n, 1n << 20n, (1n << 63n) - 1n),
      fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }),
    );
  return fc.integer({ min: -2, max: 5 });
};

const maybeKnown = (map: Record<string, string>) =>
  fc
    .constantFrom(
      {},
      { connection: "one" },
      { node_attach_driver: "hostpath", path: "/nonexistent/v/x" },
      { node_attach_driver: "nfs" },
    )
    .map(known => ({ ...map, ...known }));

/** Near-valid: most fields filled in with values of the right type, many of them with values that occur. */
function message(type: DescMessage, depth: number): fc.Arbitrary<object> {
  if (depth < 0) return fc.constant({});
  const parts: Record<string, fc.Arbitrary<unknown>> = {};
  for (const member of type.members) {
    if (member.kind === "oneof") {
      const cases = member.fields.map(field => values(field, depth).map(value => ({ case: field.localName, value })));
      parts[member.localName] = fc.oneof(
        { weight: 5, arbitrary: fc.oneof(...cases) },
        fc.constant({ case: undefined }),
      );
    } else {
      parts[member.localName] = fc.option(values(member, depth), { nil: undefined, freq: 5 });
    }
  }
  return fc.record(parts);
}

/** The seed draws other requests for each commit. */
const rounds = Number(process.env["CSIMUX_FUZZ_RUNS"] ?? (everything ? 400 : 150));

for (const service of [Identity, Controller, Node]) {
  for (const method of service.methods) {
    test(`${service.name}.${method.name} answers anything with a code of the specification, without stack or file content`, async () => {
      await fc.assert(
        fc.asyncProperty(message(method.input, 4), async request => {
          const from = performance.now();
          const answer = await world.client.call(method as DescMethodUnary, request as never, 20_000).then(
            () => ({ code: 0, details: "" }),
            (error: { code: number; details: string }) => error,
          );
          expect({ code: answer.code, known: allowed.has(answer.code), details: answer.details }).toMatchObject({
            known: true,
          });
          expect(answer.details).not.toMatch(/\n\s+at |\.ts:\d|node_modules|root:x:0/);
          expect(performance.now() - from).toBeLessThan(20_000);
        }),
        { numRuns: rounds, endOnFailure: true },
      );
      expect((await world.probe()).ready).toBe(true);
    }, 300_000);
  }
}
