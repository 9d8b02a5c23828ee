import { afterEach, beforeEach, expect, test } from "bun:test";
import { shareAttachers } from "../../lib/node/attachers.ts";
import { Care } from "../../lib/node/care.ts";
import { Mounts } from "../../lib/node/mounts.ts";
import { Records } from "../../lib/node/records.ts";
import { Watching } from "../../lib/node/watching.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { callOf, calm, isRoot, keptLog, Lab, local, mountinfo } from "./lab.ts";

let lab: Lab;
let mount: MountProgram;
beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
});
afterEach(() => lab.close());

const context = { node_attach_driver: "nfs", server: "nas", share: "/export/v/a" };

function world() {
  const { runner } = mount;
  const node = lab.node(runner, mountinfo, { host: runner, attachers: shareAttachers({ hostMounts: false }) });
  const mounts = new Mounts(runner, runner, mountinfo, lab.at("records"));
  return { node, care: new Watching(mounts, new Records(lab.at("records")), { isGone: async () => false }) };
}

test.skipIf(!isRoot)(
  "a share that falls silent, is forgotten by its server or unmounted is told once, and so is its recovery",
  async () => {
    const { node, care } = world();
    const { log, warnings } = keptLog();
    const told: string[] = [];
    const kept = { ...log, info: (text: string) => void told.push(text) };
    const look = () => care.look(kept, calm);
    await node.stage(lab.stage("a", { context }), callOf());
    for (const health of ["fine", "stale", "stale", "fine", "fine"] as const) {
      await mount.health(health);
      await look();
    }
    expect(warnings).toEqual(["a staged volume is unknown to its server"]);
    expect(told).toEqual(["a staged volume is well again"]);
    await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
    await look();
    await look();
    expect(warnings.slice(1)).toEqual(["a staged volume is not mounted"]);
    await node.stage(lab.stage("a", { context }), callOf());
    await look();
    expect(told).toHaveLength(2);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    await look();
    expect(warnings).toHaveLength(2);
  },
);

test.skipIf(!isRoot)("it goes on by itself until it is stopped", async () => {
  const { node, care } = world();
  await node.stage(lab.stage("a", { context }), callOf());
  await mount.health("stale");
  const warned = Promise.withResolvers<void>();
  const { log } = keptLog();
  const loop = new Care([care]);
  loop.start(1_000, { ...log, warn: () => warned.resolve() });
  await warned.promise;
  loop.stop();
  await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
});
