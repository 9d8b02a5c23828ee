import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { type CopyRecord, readRecord, writeRecord } from "../../../../lib/copies/record.ts";
import { callWith, gib, volumeOf } from "../../../contract/rig.ts";
import { asked, copyProcess, copyRequest } from "../../../copy/copy-world.ts";
import { commanded } from "../../../copy/pair.ts";
import { failure } from "../../../mux/world.ts";
import { isHostRoot } from "../../../root.ts";
import { openOn, temporaryFolder } from "../directory-rig.ts";
import { abilities } from "./rig.ts";

// Others can write to the base folder of a copy's target: what they write there must not choose what is read on other connections.

const call = callWith();
const secret = "the content of victim";

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
  for (const name of ["a", "b", "c"]) {
    await mkdir(`${base}/${name}`);
    const driver = openOn(`${base}/${name}`);
    for (const id of name === "b" ? [] : ["mine", "victim"]) {
      await driver.create(volumeOf(id, gib), call);
      await writeFile(`${base}/${name}/v/${id}/content`, id === "mine" ? "mine" : secret);
    }
  }
});
afterEach(() => rm(base, { recursive: true, force: true }));

const opened = (changes?: () => Promise<void>) =>
  copyProcess({
    drivers: new Map(
      ["a", "b", "c"].map(name => [
        name,
        () => {
          const driver = openOn(`${base}/${name}`);
          const { copyTarget } = driver;
          if (!changes || !copyTarget || name !== "b") return driver;
          const begin: typeof copyTarget.begin = async (...all) => {
            const landing = await copyTarget.begin(...all);
            await changes();
            return (await copyTarget.find(landing.id, call)) ?? landing;
          };
          return { ...driver, copyTarget: { ...copyTarget, begin } };
        },
      ]),
    ),
    // Only a hand takes the record away from its holder, however busy the machine is.
    times: { answerWithin: 5_000, leaseTimeout: 60_000 },
  });

/** A change of the record by hand. */
async function written(change: (record: CopyRecord) => Partial<CopyRecord>): Promise<void> {
  const { copyTarget } = abilities(openOn(`${base}/b`));
  const landing = await copyTarget.find("copy", call);
  if (!landing) return;
  const record = readRecord(landing.record, "test");
  await copyTarget.note("copy", writeRecord({ ...record, holder: "", ...change(record) }), call);
}

const notLeaked = () =>
  expect(execFileSync("sh", ["-c", `grep -rl '${secret}' . || :`], { cwd: `${base}/b`, encoding: "utf8" })).toBe("");

const request = copyRequest("copy", "b", "v:a/mine", { range: { required: gib, limit: undefined } });
const begin = {
  ...({ command: "begin", source: "v:a/mine", name: "copy", bytes: gib } as const),
  ...{ parameters: { connection: "b" }, capabilities: [], mutable: {} },
};
const pass = { command: "pass", target: "v:b/copy" } as const;

const snapshots: readonly (readonly [string, (record: CopyRecord) => Partial<CopyRecord>])[] = [
  ["another volume", ({ snapshot }) => ({ snapshot: { ...snapshot, name: "v/victim" } })],
  ["a path out of the base folder", ({ snapshot }) => ({ snapshot: { ...snapshot, name: "v/../../c/v/victim" } })],
];

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a copy between folders", () => {
  test.each(snapshots)(
    "of a claim is refused when %s is written into its record, and made with the next request",
    async (_, change) => {
      let left = 1;
      const one = opened(async () => {
        if (left-- > 0) await written(change);
      });
      const refused = await failure(asked(() => one.volumes.create(request, call)));
      expect(refused?.code).toBe("failed-precondition");
      expect(refused?.message).toContain("nothing was read");
      notLeaked();
      await asked(() => one.volumes.create(request, call));
      expect(await readFile(`${base}/b/v/copy/content`, "utf8")).toBe("mine");
      notLeaked();
      await one.stop(1_000);
    },
  );

  const origins: typeof snapshots = [
    ...snapshots,
    ["another source", () => ({ origin: { kind: "volume", handle: "v:a/victim" } })],
    [
      "another source and its content",
      ({ snapshot }) => ({
        origin: { kind: "volume", handle: "v:a/victim" },
        snapshot: { ...snapshot, name: "v/victim" },
      }),
    ],
    ["a source on another connection", () => ({ origin: { kind: "volume", handle: "v:c/victim" } })],
  ];

  test.each(origins.flatMap(([what, change]) => ["first", "second"].map(which => [which, what, change] as const)))(
    "by a move is refused in its %s pass when its record has %s",
    async (which, _, change) => {
      const one = opened();
      await commanded(one, begin);
      if (which === "second") await commanded(one, pass);
      const landing = await abilities(openOn(`${base}/b`)).copyTarget.find("copy", call);
      const honest = readRecord(landing?.record ?? "", "test");
      await written(change);
      const refused = await failure(commanded(one, pass));
      expect(refused?.code).toBe("failed-precondition");
      expect(refused?.message).toContain("nothing was read");
      notLeaked();
      await written(() => honest);
      await commanded(one, pass);
      await commanded(one, { command: "finish", target: "v:b/copy" });
      expect(await readFile(`${base}/b/v/copy/content`, "utf8")).toBe("mine");
      notLeaked();
      await one.stop(1_000);
    },
  );
});
