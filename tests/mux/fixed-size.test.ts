import { expect, test } from "bun:test";
import { disk, fixedFilesystems } from "../../lib/core/access.ts";
import { filesystems } from "../../lib/node/disks/filesystems.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { writer } from "../node/lab.ts";
import { codeOf, muxWorld, request } from "./world.ts";

const call = testCall();

test("the file systems that nodes cannot grow are known to the controller", () => {
  const fixed = Object.entries(filesystems).filter(([, { grow }]) => grow === undefined);
  expect(fixed.map(([name]) => name)).toEqual([...fixedFilesystems]);
});

test.each([
  ["vfat", "invalid-argument"],
  ["xfs", undefined],
  ["", undefined],
])("a disk with the file system %p is expanded, unless no node can grow it (%p)", async (fsType, answer) => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { access: disk });
  await world.volumes.create(request("v", "c"), call);
  const range = { required: 2n << 20n, limit: undefined };
  const size = () => world.memory("c").volumes.get("v")?.bytes;
  const before = size();
  expect(await codeOf(world.volumes.expand("v:c/v", range, { ...writer, fsType }, call))).toBe(answer);
  expect(size() === before).toBe(answer !== undefined);
});
