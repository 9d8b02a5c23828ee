import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import type { Log } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { Attacher } from "../../lib/node/attach/attacher.ts";
import { OrphanedVolumes, PathRestorer } from "../../lib/node/state/maintenance.ts";
import { stagingRootOf } from "../../lib/node/state/mount-points.ts";
import { StageRecords } from "../../lib/node/state/stage-records.ts";
import { callOf, calm, isRoot, keptLog, Lab, local } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

test.skipIf(!isRoot)("a volume without a staging folder and mounts is unstaged by the second check", async () => {
  const node = lab.node();
  const records = new StageRecords(lab.at("records"));
  const orphans = new OrphanedVolumes(lab.parts(), (request, call) => node.unstage(request, call));
  const { log } = keptLog();
  const known = async () => (await records.all()).map(({ volumeId }) => volumeId).sort();
  for (const name of ["used", "rebooted", "gone"]) {
    await lab.source(name);
    await node.stage(lab.stage(name), callOf());
  }
  for (const name of ["rebooted", "gone"]) await local.run({ argv: ["umount", lab.at("staging", name)] }, calm);
  await rm(lab.at("staging", "gone"), { recursive: true });
  await orphans.run(log, calm);
  expect(await known()).toEqual(["gone", "rebooted", "used"]);
  await orphans.run(log, calm);
  await orphans.run(log, calm);
  expect(await known()).toEqual(["rebooted", "used"]);
  await node.unstage({ volumeId: "used", stagingPath: lab.at("staging", "used") }, callOf());
});

test.skipIf(!isRoot)("a published volume without a staging folder stays", async () => {
  const node = lab.node();
  await lab.source("a");
  await node.stage(lab.stage("a"), callOf());
  await node.publish(lab.publish("a"), callOf());
  await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
  await rm(lab.at("staging", "a"), { recursive: true });
  const records = new StageRecords(lab.at("records"));
  const orphans = new OrphanedVolumes(lab.parts(), (request, call) => node.unstage(request, call));
  for (let run = 0; run < 3; run++) await orphans.run(keptLog().log, calm);
  expect(await records.all()).toHaveLength(1);
  await node.unpublish({ volumeId: "a", targetPath: lab.publish("a").targetPath }, callOf());
});

const kubelet = (name: string) => ["kubelet", "plugins", "kubernetes.io", "csi", "csimux", name, "globalmount"];

test.skipIf(!isRoot)(
  "a process that does not see the kubelet's folder unstages nothing; one that sees it emptied does",
  async () => {
    const node = lab.node();
    await lab.source("a");
    const stagingPath = lab.at(...kubelet("a"));
    await mkdir(stagingPath, { recursive: true });
    await node.stage(lab.stage("a", { stagingPath }), callOf());
    await local.run({ argv: ["umount", stagingPath] }, calm);
    await rm(lab.at("kubelet"), { recursive: true });
    // A wrong hostPath of the pod is an empty folder where the kubelet's is expected.
    await mkdir(lab.at("kubelet"));
    const records = new StageRecords(lab.at("records"));
    const orphans = new OrphanedVolumes(lab.parts(), (request, call) => node.unstage(request, call));
    for (let run = 0; run < 3; run++) await orphans.run(keptLog().log, calm);
    expect(await records.all()).toHaveLength(1);
    await mkdir(lab.at("kubelet", "plugins"));
    for (let run = 0; run < 2; run++) await orphans.run(keptLog().log, calm);
    expect(await records.all()).toEqual([]);
  },
);

test.each([
  ["/var/lib/kubelet/plugins/kubernetes.io/csi/org.csimux/0f/globalmount", "/var/lib/kubelet/plugins"],
  ["/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/staging/pvc-1", "/var/lib/kubelet/plugins"],
  ["/local/csi/staging/default/v1/rw-file-system-single-node-writer", "/local/csi"],
  ["/srv/staging/v1", "/srv/staging"],
])("the orchestrator's folder of %s is %s", (stagingPath, root) => {
  expect(stagingRootOf(stagingPath)).toBe(root);
});

test.skipIf(!isRoot)(
  "paths are reopened for mounted volumes only, not for what a restart of the machine left recorded",
  async () => {
    const parts = lab.parts();
    const hostpath = parts.attachers.get("hostpath");
    if (!hostpath) throw new Error("the test needs the attacher of hostpath");
    const reopened: string[] = [];
    const { access, attach } = hostpath;
    const restore: Attacher["restore"] = async ({ volumeId }) => {
      reopened.push(volumeId);
      return [];
    };
    for (const name of ["used", "published", "rebooted"]) {
      await lab.source(name);
      await lab.node().stage(lab.stage(name), callOf());
      const record = await parts.records.find(name, keptLog().log);
      if (!record) throw new Error("the test needs a record");
      await parts.records.save({ ...record, attached: { kind: "share", fsType: "fake", source: "somewhere" } });
    }
    await lab.node().publish(lab.publish("published"), callOf());
    for (const name of ["published", "rebooted"]) await local.run({ argv: ["umount", lab.at("staging", name)] }, calm);
    const paths = new PathRestorer({ ...parts, attachers: new Map([["hostpath", { access, attach, restore }]]) });
    await paths.run(keptLog().log, calm);
    expect(reopened.sort()).toEqual(["published", "used"]);
  },
);

test.skipIf(!isRoot)(
  "a path that cannot be reopened is logged once for each reason, and again after it was reopened",
  async () => {
    await lab.source("a");
    await lab.node().stage(lab.stage("a"), callOf());
    const [file = ""] = await readdir(lab.at("records"));
    const record = JSON.parse(await readFile(lab.at("records", file), "utf8"));
    const attached = { kind: "share", fsType: "fake", source: "somewhere" };
    await writeFile(lab.at("records", file), JSON.stringify({ ...record, attached }));
    const parts = lab.parts();
    const hostpath = parts.attachers.get("hostpath");
    if (!hostpath) throw new Error("the test needs the attacher of hostpath");
    let answer = async (): Promise<readonly string[]> => [];
    const { access, attach } = hostpath;
    const attacher: Attacher = { access, attach, restore: () => answer() };
    const paths = new PathRestorer({ ...parts, attachers: new Map([["hostpath", attacher]]) });
    const reasons: unknown[] = [];
    const log: Log = {
      ...keptLog().log,
      warn: (_text, fields?: Readonly<Record<string, unknown>>) => reasons.push(fields?.["reason"]),
    };
    const failing = (reason: string) => async () => {
      throw new CsiError("unavailable", reason);
    };
    const rounds = [failing("a"), failing("a"), failing("b"), async () => ["session1"], failing("b")];
    for (const round of rounds) {
      answer = round;
      await paths.run(log, calm);
    }
    expect(reasons).toEqual(["a", "b", "b"]);
    await lab.node().unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
  },
);
