import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, open, readdir } from "node:fs/promises";
import { attachers } from "../../../lib/node/attach/attachers.ts";
import type { NodeVolumes } from "../../../lib/node/volumes.ts";
import { MountProgram } from "../../fakes/mount-program.ts";
import { callOf, calm, codeOf, isRoot, keptLog, Lab, local, mountinfo } from "../lab.ts";

let lab: Lab;
let mount: MountProgram;
let node: NodeVolumes;
beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
  const { runner } = mount;
  node = lab.node(runner, mountinfo, { host: runner, attachers: attachers(lab.ports(runner)) });
});
afterEach(() => lab.close());

const context = { node_attach_driver: "nfs", server: "nas", share: "/export/v/a" };
const target = () => lab.at("pods", "a", "mount");
const staged = () => lab.at("staging", "a");
const stage = () => node.stage(lab.stage("a", { context }), callOf());
const publish = () => node.publish(lab.publish("a", { context }), callOf());
const unpublish = (call = callOf()) => node.unpublish({ volumeId: "a", targetPath: target() }, call);
const unstage = (call = callOf()) => node.unstage({ volumeId: "a", stagingPath: staged() }, call);

describe.skipIf(!isRoot)("a share in use", () => {
  test("stays mounted while its server answers", async () => {
    await stage();
    await publish();
    const file = await open(`${target()}/file`, "w");
    try {
      expect(await codeOf(unpublish())).toBe("unavailable");
      expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
    } finally {
      await file.close();
    }
    await unpublish();
    await unstage();
  });

  test.each(["stale", "silent"] as const)(
    "is detached lazily when it is %s, and open files remain usable",
    async health => {
      await stage();
      await publish();
      const inPod = await open(`${target()}/file`, "w");
      const inStaging = await open(`${staged()}/other`, "w");
      try {
        await mount.health(health);
        const { log, warnings } = keptLog();
        await unpublish(callOf(calm, log));
        await unstage(callOf(calm, log));
        expect(warnings).toHaveLength(2);
        expect(await lab.mounted()).toEqual([]);
        expect(await readdir(lab.at("records"))).toEqual([]);
        await inPod.write("still there");
      } finally {
        await inPod.close();
        await inStaging.close();
      }
    },
    30_000,
  );

  test("of a local disk or folder is never detached lazily", async () => {
    await lab.source("b");
    await node.stage(lab.stage("b"), callOf());
    await mount.health("stale");
    const file = await open(lab.at("staging", "b", "file"), "w");
    try {
      const unstaging = node.unstage({ volumeId: "b", stagingPath: lab.at("staging", "b") }, callOf());
      expect(await codeOf(unstaging)).toBe("unavailable");
      expect(await lab.mounted()).toEqual(["staging/b"]);
    } finally {
      await file.close();
    }
  });
});

describe.skipIf(!isRoot)("a share whose export was withdrawn and restored", () => {
  test("is mounted again by the next staging and publishing", async () => {
    await stage();
    await publish();
    const old = await open(`${target()}/of the old mount`, "w");
    await mount.health("stale");
    await stage();
    await publish();
    await mount.health("fine");
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
    expect([await readdir(staged()), await readdir(target())]).toEqual([[], []]);
    await old.close();
    await unpublish();
    await unstage();
  });
});

describe.skipIf(!isRoot)("a share whose server does not answer", () => {
  test("cannot be staged or published again, and reports that it does not answer", async () => {
    await stage();
    await publish();
    await mount.health("silent");
    const answers = await Promise.all([codeOf(stage()), node.stats({ volumeId: "a", path: target() }, callOf())]);
    expect(answers[0]).toBe("unavailable");
    expect(answers[1]).toMatchObject({ usage: [], conditions: [{ reason: "NotAnswering" }] });
    expect(await codeOf(publish())).toBe("unavailable");
    await mount.health("stale");
    const { conditions, failure } = await node.stats({ volumeId: "a", path: target() }, callOf());
    expect(conditions).toMatchObject([{ reason: "StaleHandle" }]);
    expect(failure?.code).toBe("unavailable");
    await mount.health("fine");
    expect(await node.health({ volumeId: "a", path: "" }, callOf())).toEqual([]);
  }, 30_000);
});

test.skipIf(!isRoot)("a share that answers EAGAIN is neither mounted again nor reported as unhealthy", async () => {
  await stage();
  await publish();
  await mount.health("busy");
  await stage();
  await mount.health("busy");
  const { usage, conditions } = await node.stats({ volumeId: "a", path: target() }, callOf());
  expect(usage).not.toEqual([]);
  expect(conditions).toEqual([]);
  expect(await mount.calls()).toHaveLength(1);
  await unpublish();
  await unstage();
});

describe.skipIf(!isRoot)("the health of a volume", () => {
  test("is degraded if it became read-only by itself, but not if it was mounted read-only", async () => {
    await stage();
    expect(await node.health({ volumeId: "a", path: "" }, callOf())).toEqual([]);
    await local.run({ argv: ["mount", "-o", "remount,ro", staged()] }, calm);
    const placed = { volumeId: "a", path: staged() };
    expect(await node.health(placed, callOf())).toMatchObject([{ reason: "ReadOnlyFileSystem" }]);
    expect((await node.stats(placed, callOf())).usage).not.toEqual([]);
    await unstage();
  });

  test("is not found without a record, and empty after a failed staging", async () => {
    expect(await codeOf(node.health({ volumeId: "a", path: "" }, callOf()))).toBe("not-found");
    expect(await codeOf(node.health({ volumeId: "a", path: staged() }, callOf()))).toBe("not-found");
    await mount.answer("mount.nfs: Connection refused");
    expect(await codeOf(stage())).toBe("unavailable");
    expect(await node.health({ volumeId: "a", path: "" }, callOf())).toEqual([]);
    await unstage();
    expect(await readdir(lab.at("records"))).toEqual([]);
  });
});

test.skipIf(!isRoot)("a share that another mount covers does not count as staged", async () => {
  await mkdir(lab.at("other"));
  await lab.bind(lab.at("other"), staged());
  expect(await codeOf(stage())).toBe("already-exists");
  expect(await mount.calls()).toEqual([]);
});
