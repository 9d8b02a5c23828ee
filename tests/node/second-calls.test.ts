import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile } from "node:fs/promises";
import type { AccessMode, Capability } from "../../lib/core/access.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, mountinfo, spying, writer } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

describe.skipIf(!isRoot)("a second call with other arguments", () => {
  const rules: [AccessMode, string][] = [
    ["multi-node-multi-writer", "ok"],
    ["multi-node-single-writer", "ok"],
    ["single-node-multi-writer", "ok"],
    ["single-node-writer", "ok"],
    ["single-node-single-writer", "failed-precondition"],
  ];
  test.each(rules)("under mode %s at a second target answers %s", async (mode, code) => {
    await lab.source("a");
    const node = lab.node();
    const capability: Capability = { ...writer, mode };
    await node.stage(lab.stage("a", { capability }), callOf());
    const first = lab.publish("a", { capability });
    await node.publish(first, callOf());
    const again = [
      { ...first, readonly: true },
      { ...first, context: { ...first.context, more: "x" } },
      { ...first, publishContext: { more: "x" } },
      { ...first, capability: { ...capability, fsType: "xfs" } },
      { ...first, capability: { ...capability, mountFlags: ["noatime"] } },
    ];
    expect(await codeOf(node.publish(first, callOf()))).toBe("ok");
    for (const other of again) expect(await codeOf(node.publish(other, callOf()))).toBe("already-exists");
    expect(await codeOf(node.publish({ ...first, targetPath: lab.at("second") }, callOf()))).toBe(code);
    expect(await codeOf(node.publish({ ...first, targetPath: lab.at("third"), readonly: true }, callOf()))).toBe(code);
    await node.unpublish({ volumeId: "a", targetPath: first.targetPath }, callOf());
    expect(await codeOf(node.publish({ ...first, targetPath: lab.at("fourth") }, callOf()))).toBe("ok");
  });

  test("is not one in which only the pod's tokens changed", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    const first = lab.publish("a");
    const token = (value: string) => ({
      ...first,
      context: { ...first.context, "csi.storage.k8s.io/serviceAccount.tokens": value },
    });
    await node.publish(token("one"), callOf());
    expect(await codeOf(node.publish(token("two"), callOf()))).toBe("ok");
    const [file = ""] = await readdir(lab.at("records"));
    expect(await readFile(lab.at("records", file), "utf8")).not.toContain("token");
  });

  test("of stage with an incompatible capability answers already-exists, and an ignored fs type is compatible", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    const capability: Capability = { ...writer, mode: "single-node-reader-only" };
    expect(await codeOf(node.stage(lab.stage("a", { capability }), callOf()))).toBe("already-exists");
    expect(await codeOf(node.stage(lab.stage("a", { capability: { ...writer, fsType: "xfs" } }), callOf()))).toBe("ok");
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await codeOf(node.stage(lab.stage("a", { capability }), callOf()))).toBe("ok");
  });

  test("of stage is none where only the flags of the node have changed, as when the kubelet has restarted", async () => {
    await lab.source("a");
    let flags: readonly string[] = ["noatime", "nodev"];
    const stage = () => lab.node(local, mountinfo, { mountFlags: async () => flags }).stage(lab.stage("a"), callOf());
    const options = async () => (await lab.mounts()).find(({ at }) => at === lab.at("staging", "a"))?.options ?? [];
    await stage();
    await lab.node().publish(lab.publish("a"), callOf());
    for (const changed of [["nodev"], [], ["nosuid"]]) {
      flags = changed;
      for (let twice = 0; twice < 2; twice++) expect(await codeOf(stage())).toBe("ok");
      await lab.node().publish(lab.publish("a"), callOf());
      for (const flag of changed) expect(await options()).toContain(flag);
    }
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
    await lab.node().unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    await lab.node().unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await lab.mounted()).toEqual([]);
  });

  test("of stage at a second path answers failed-precondition until the first is free", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    expect(await codeOf(node.stage(lab.stage("a", { stagingPath: lab.at("s2") }), callOf()))).toBe(
      "failed-precondition",
    );
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await codeOf(node.stage(lab.stage("a", { stagingPath: lab.at("s2") }), callOf()))).toBe("ok");
  });

  test("never stacks another folder of the same file system on a staging path or target", async () => {
    await lab.source("a");
    await lab.source("b");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    expect(await codeOf(node.stage(lab.stage("b", { stagingPath: lab.at("staging", "a") }), callOf()))).toBe(
      "already-exists",
    );
    await node.stage(lab.stage("b"), callOf());
    const onto = lab.publish("b", { targetPath: lab.at("pods", "a", "mount") });
    expect(await codeOf(node.publish(onto, callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a", "staging/b"]);
  });

  test("fails at once while the volume or the path is locked", async () => {
    await lab.source("a");
    await lab.source("b");
    const gate = Promise.withResolvers<void>();
    const node = lab.node(spying(() => gate.promise));
    const first = node.stage(lab.stage("a"), callOf());
    expect(await codeOf(node.stage(lab.stage("a", { stagingPath: lab.at("other") }), callOf()))).toBe("aborted");
    expect(await codeOf(node.stage(lab.stage("b", { stagingPath: lab.at("staging", "a") }), callOf()))).toBe("aborted");
    expect(await codeOf(node.stats({ volumeId: "a", path: lab.at("staging", "a") }, callOf()))).toBe("not-found");
    gate.resolve();
    await first;
  });
});

test.skipIf(!isRoot)(
  "a mount whose preparation another csimux removes, as one that starts does, shows no folder of the node",
  async () => {
    const source = await lab.source("a");
    const { mounts } = lab.parts();
    const stage = () => mounts.bind({ source, at: lab.at("target"), flags: ["noatime"] }, before, calm);
    const before = await mounts.table();
    const read = mounts.table.bind(mounts);
    let reads = 0;
    // The first table that has the preparation proves it. Before the next one, the other process unmounts it; it removes the folder later.
    mounts.table = async () => {
      const made = (await lab.mounted()).find(at => at.startsWith("records/"));
      if (made !== undefined && reads++ > 0) await local.run({ argv: ["umount", lab.at(made)] }, calm);
      return await read();
    };
    await mkdir(lab.at("target"));
    expect(await codeOf(stage())).not.toBe("ok");
    expect(await lab.mounted()).toEqual([]);
  },
);
