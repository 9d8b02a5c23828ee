import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFile, mkdir, readdir, readFile, rmdir, unlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Capability } from "../../lib/core/access.ts";
import { callOf, calm, codeOf, isRoot, keptLog, Lab, local, writer } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

describe.skipIf(!isRoot)("after a restart", () => {
  test("the records are sufficient to continue", async () => {
    await lab.source("a");
    const capability: Capability = { ...writer, mode: "single-node-single-writer" };
    await lab.node().stage(lab.stage("a", { capability }), callOf());
    await lab.node().publish(lab.publish("a", { capability }), callOf());
    await lab.node().publish(lab.publish("a", { capability }), callOf());
    const second = lab.publish("a", { capability, targetPath: lab.at("second") });
    expect(await codeOf(lab.node().publish(second, callOf()))).toBe("failed-precondition");
    await lab.node().unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    await lab.node().unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test("of the machine, old records do not block new calls", async () => {
    await lab.source("a");
    const capability: Capability = { ...writer, mode: "single-node-single-writer" };
    await lab.node().stage(lab.stage("a", { capability }), callOf());
    await lab.node().publish(lab.publish("a", { capability }), callOf());
    for (const at of ["pods/a/mount", "staging/a"]) await local.run({ argv: ["umount", lab.at(at)] }, calm);
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a", { targetPath: lab.at("second") }), callOf());
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    await node.unpublish({ volumeId: "a", targetPath: lab.at("second") }, callOf());
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await readdir(lab.at("pods", "a"))).toEqual([]);
  });

  test.each(["", "{", "[]", '{"version":1,"volumeId":"other"}', "\u0000"])(
    "a record with the text %j is renamed, and the kubelet's paths still work",
    async text => {
      await lab.source("a");
      const stagingPath = lab.at("plugins/kubernetes.io/csi/driver/x/globalmount");
      const targetPath = lab.at("pods/1/volumes/kubernetes.io~csi/pv/mount");
      const request = lab.publish("a", { stagingPath, targetPath });
      await lab.node().stage(lab.stage("a", { stagingPath }), callOf());
      await lab.node().publish(request, callOf());
      for (const at of [stagingPath, targetPath])
        await writeFile(`${dirname(at)}/vol_data.json`, JSON.stringify({ volumeHandle: "a", driverName: "csimux" }));
      const [file = ""] = await readdir(lab.at("records"));
      await writeFile(lab.at("records", file), text);
      const { log, warnings } = keptLog();
      await lab.node().stats({ volumeId: "a", path: targetPath }, callOf(calm, log));
      expect(warnings).toHaveLength(1);
      const files = await readdir(lab.at("records"));
      expect(files).toHaveLength(1);
      expect(await readFile(lab.at("records", files[0] ?? ""), "utf8")).toBe(text);
      expect(await codeOf(lab.node().expand({ volumeId: "a", path: targetPath }, undefined, callOf()))).toBe(
        "failed-precondition",
      );
      await lab.node().publish(request, callOf());
      expect(await codeOf(lab.node().expand({ volumeId: "a", path: targetPath }, undefined, callOf()))).toBe("ok");
      await lab.node().unpublish({ volumeId: "a", targetPath }, callOf());
      await lab.node().unstage({ volumeId: "a", stagingPath }, callOf());
      expect(await lab.mounted()).toEqual([]);
    },
  );

  test("the record of another volume under this volume's name does not count", async () => {
    await lab.source("a");
    await lab.source("b");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    const [ofA = ""] = await readdir(lab.at("records"));
    await node.stage(lab.stage("b"), callOf());
    const ofB = (await readdir(lab.at("records"))).find(file => file !== ofA) ?? "";
    await copyFile(lab.at("records", ofB), lab.at("records", ofA));
    const { log, warnings } = keptLog();
    await node.stage(lab.stage("a"), callOf(calm, log));
    expect(warnings).toHaveLength(1);
    await node.publish(lab.publish("a"), callOf());
  });

  test("without records, a target with a wrong mount does not count as published", async () => {
    await lab.source("a");
    await lab.node().stage(lab.stage("a"), callOf());
    await lab.node().publish(lab.publish("a"), callOf());
    for (const file of await readdir(lab.at("records"))) await unlink(lab.at("records", file));
    expect(await codeOf(lab.node().publish(lab.publish("a"), callOf()))).toBe("failed-precondition");
    await lab.node().stage(lab.stage("a"), callOf());
    expect(await codeOf(lab.node().publish(lab.publish("a", { readonly: true }), callOf()))).toBe("already-exists");
    expect(await codeOf(lab.node().publish(lab.publish("a"), callOf()))).toBe("ok");
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
  });

  test("a volume whose record was made again by a publication is staged again in its place, if the access is the same", async () => {
    await lab.source("a");
    const stagingPath = lab.at("plugins/kubernetes.io/csi/driver/x/globalmount");
    const targetPath = lab.at("pods/1/volumes/kubernetes.io~csi/pv/mount");
    await lab.node().stage(lab.stage("a", { stagingPath }), callOf());
    await mkdir(dirname(targetPath), { recursive: true });
    for (const at of [stagingPath, targetPath])
      await writeFile(`${dirname(at)}/vol_data.json`, JSON.stringify({ volumeHandle: "a", driverName: "csimux" }));
    for (const file of await readdir(lab.at("records"))) await unlink(lab.at("records", file));
    await lab.node().publish(lab.publish("a", { stagingPath, targetPath }), callOf());
    const again = (more: Partial<Capability> = {}) =>
      codeOf(lab.node().stage(lab.stage("a", { stagingPath, capability: { ...writer, ...more } }), callOf()));
    expect(await again({ mode: "multi-node-reader-only" })).toBe("already-exists");
    for (let twice = 0; twice < 2; twice++) expect(await again()).toBe("ok");
    expect(await again({ mountFlags: ["noexec"] })).toBe("ok");
    await lab.node().unpublish({ volumeId: "a", targetPath }, callOf());
    await lab.node().unstage({ volumeId: "a", stagingPath }, callOf());
    expect(await lab.mounted()).toEqual([]);
  });

  test("a volume is never published from another volume's staging path", async () => {
    await lab.source("a");
    await lab.source("b");
    const stagingPath = lab.at("plugins/kubernetes.io/csi/driver/x/globalmount");
    await lab.node().stage(lab.stage("b", { stagingPath }), callOf());
    expect(await codeOf(lab.node().publish(lab.publish("a", { stagingPath }), callOf()))).toBe("failed-precondition");
    expect(await codeOf(lab.node().unstage({ volumeId: "a", stagingPath }, callOf()))).toBe("failed-precondition");
  });

  test("a file in place of the record folder does not count as a lost record", async () => {
    await lab.source("a");
    await writeFile(lab.at("records"), "");
    expect(await codeOf(lab.node().stage(lab.stage("a"), callOf()))).toBe("unavailable");
    expect(await lab.mounted()).toEqual([]);
  });
});

test.skipIf(!isRoot)("a failed staging keeps targets that are still mounted in the record", async () => {
  const source = await lab.source("a");
  const node = lab.node();
  await node.stage(lab.stage("a"), callOf());
  await node.publish(lab.publish("a"), callOf());
  await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
  await rmdir(source);
  expect(await codeOf(node.stage(lab.stage("a"), callOf()))).toBe("not-found");
  await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
  expect(await lab.mounted()).toEqual([]);
});

describe.skipIf(!isRoot)("a source that went away", () => {
  test("can still be unpublished and unstaged", async () => {
    const source = await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await rmdir(source);
    // Not final, because it is still mounted.
    expect(await codeOf(node.stage(lab.stage("a"), callOf()))).toBe("unavailable");
    expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("unavailable");
    await mkdir(source);
    expect(await codeOf(node.stage(lab.stage("a"), callOf()))).toBe("unavailable");
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await readdir(dirname(source))).toEqual(["a"]);
  });
});
