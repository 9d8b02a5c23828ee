import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { notYetAttached, StageRecords } from "../../lib/node/state/stage-records.ts";

test("the staged volumes are all of them, or unknown", async () => {
  const folder = mkdtempSync(join(tmpdir(), "csimux-staged-"));
  try {
    expect(await new StageRecords(join(folder, "none")).volumes()).toEqual([]);
    const records = new StageRecords(folder);
    const common = {
      protocol: "nfs",
      context: {},
      kind: "mount",
      fsType: undefined,
      mode: "single-node-writer",
      flags: [],
    } as const;
    for (const volumeId of ["v:a/1", "v:a/2"])
      await records.save({ ...common, ...notYetAttached, volumeId, stagingPath: `/s/${volumeId}` });
    expect([...((await records.volumes()) ?? [])].sort()).toEqual(["v:a/1", "v:a/2"]);
    await records.remove("v:a/1");
    expect(await records.volumes()).toEqual(["v:a/2"]);
    // With a damaged record, nothing may be concluded from the others.
    writeFileSync(join(folder, "damaged.json"), "{");
    expect(await records.volumes()).toBeUndefined();
    expect((await records.all()).map(({ volumeId }) => volumeId)).toEqual(["v:a/2"]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
