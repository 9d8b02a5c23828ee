import { expect, test } from "bun:test";
import { callWith, getVolume, gib, volumeIds, volumeOf } from "../../contract/rig.ts";
import { truncation } from "../../contract/truncation.ts";
import { ofsRig } from "./ofs-rig.ts";

const call = callWith();
const isTool = () => true;
const changes = ({ argv }: { readonly argv: readonly string[] }): boolean => argv.includes("destroy");

test("a truncated, doubled or late listing of ObjectiveFS causes no wrong result and destroys no other file system", async () => {
  const rig = await ofsRig();
  const { runner } = rig;
  const driver = rig.open();
  try {
    const { id } = await driver.create(volumeOf("a"), call);
    for (const name of ["b", "c"]) await driver.create(volumeOf(name), call);
    let runs = 0;
    const fuzz = (work: (driver: ReturnType<typeof rig.open>) => Promise<unknown>) =>
      truncation({ runner, isTool, changes, work: replay => work(rig.open({ runner: replay })) });
    runs += await fuzz(each => volumeIds(each));
    runs += await fuzz(each => getVolume(each, id));
    runs += await fuzz(each => each.create(volumeOf("a"), call));
    runs += await fuzz(each => each.create(volumeOf("a", gib * 2n), call));
    runs += await fuzz(each => each.delete("never-made", call));
    runs += await fuzz(each => each.delete(id, call));
    expect(runs).toBeGreaterThan(500);
  } finally {
    await rig.close();
  }
}, 60_000);
