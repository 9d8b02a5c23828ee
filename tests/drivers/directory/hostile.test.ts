import { expect, test } from "bun:test";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { below } from "../../../scripts/check/below.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, findVolume, getVolume, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { fc } from "../../fast-check.ts";
import { openOn, temporaryFolder } from "./directory-rig.ts";

const { array, assert, asyncProperty, constantFrom, oneof, string } = fc;

const call = callWith();

/** Texts near to ids and paths of this layout. */
const nearIds = array(
  oneof(
    string({ maxLength: 4 }),
    string({ unit: "binary", maxLength: 3 }),
    constantFrom(
      "..",
      "/",
      "./",
      "f/",
      "v",
      "s",
      "_",
      "-",
      "keep",
      ".csimux",
      "work",
      "~",
      "\0",
      "%2f",
      "snapshot_id=",
      "snapshot_driver=filecopy&",
    ),
  ),
  { maxLength: 6 },
).map(parts => parts.join(""));

const allowed = new Set(["ok", "not-found", "failed-precondition", "already-exists"]);

test("no id or name changes anything outside its own tree", async () => {
  const outer = await temporaryFolder();
  const base = `${outer}/base`;
  try {
    await mkdir(base);
    await writeFile(`${outer}/outside`, "x");
    const driver = openOn(base);
    await driver.create(volumeOf("Kept-Volume"), call);
    await writeFile(`${base}/v/Kept-Volume/file`, "x");
    await snapshotsOf(driver).create("Kept-Snapshot", "Kept-Volume", {}, call);
    const before = below(outer).filter(name => name !== "base/.csimux/work");
    const property = asyncProperty(nearIds, async text => {
      const codes = [
        await codeOf(driver.delete(text, call)),
        await codeOf(getVolume(driver, text)),
        await codeOf(driver.expand?.expand(text, { required: gib, limit: undefined }, call) ?? Promise.resolve()),
        await codeOf(snapshotsOf(driver).delete(text, call)),
        await codeOf(snapshotsOf(driver).get(text, call)),
        await codeOf(snapshotsOf(driver).create("x", text, {}, call)),
        await codeOf(driver.create(volumeOf("x", gib, { kind: "snapshot", id: text }), call)),
        await codeOf(driver.create(volumeOf("x", gib, { kind: "volume", id: text }), call)),
      ];
      expect(codes.filter(code => !allowed.has(code))).toEqual([]);
      const { id } = await driver.create(volumeOf(text), call);
      expect((await findVolume(driver, text))?.id).toBe(id);
      await driver.delete(id, call);
      expect(below(outer).filter(name => name !== "base/.csimux/work")).toEqual(before);
    });
    await assert(property, { numRuns: 300 });
  } finally {
    await rm(outer, { recursive: true, force: true });
  }
});
