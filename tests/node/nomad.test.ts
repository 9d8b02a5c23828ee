import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Capability } from "../../lib/core/access.ts";
import type { Attacher } from "../../lib/node/attach/attacher.ts";
import { Disk, hasLoops } from "./disks/disk.ts";
import { callOf, codeOf, isRoot, Lab, local, mountinfo, spying, writer } from "./lab.ts";

/** The paths of Nomad: client/pluginmanager/csimanager/volume.go of 1.11.3. */

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const shared: Capability = { ...writer, mode: "multi-node-multi-writer" };
const noFilesystem = { fsType: undefined, mountFlags: [], mountGroup: undefined };
const folder = "client/csi/node/csimux";
type Use = "rw" | "ro";
const staging = (use: Use, base = folder) => `${base}/staging/default/data/${use}-file-system-multi-node-multi-writer`;
const target = (alloc: string, use: Use, base = folder) =>
  `${base}/per-alloc/${alloc}/data/${use}-file-system-multi-node-multi-writer`;

const stage = (use: Use, base?: string) =>
  lab.stage("a", { capability: shared, stagingPath: lab.at(staging(use, base)) });
const publish = (alloc: string, use: Use, base?: string) => ({
  ...stage(use, base),
  targetPath: lab.at(target(alloc, use, base)),
  readonly: use === "ro",
});
const unstage = (use: Use, base?: string) => ({ volumeId: "a", stagingPath: lab.at(staging(use, base)) });
const unpublish = (alloc: string, use: Use) => ({ volumeId: "a", targetPath: lab.at(target(alloc, use)) });

const written = (path: string): Promise<string> =>
  writeFile(path, "text").then(
    () => "written",
    (error: NodeJS.ErrnoException) => error.code ?? "",
  );

describe.skipIf(!isRoot)("a volume that Nomad stages for a writer and for a reader", () => {
  for (const [first, second] of [
    ["rw", "ro"],
    ["ro", "rw"],
  ] as const)
    for (const ending of ["first", "second"] as const)
      test(`is staged for ${first}, then for ${second}, and serves both until the ${ending} has ended`, async () => {
        const source = await lab.source("a");
        const node = lab.node();
        for (const use of [first, second])
          for (let twice = 0; twice < 2; twice++) {
            await node.stage(stage(use), callOf());
            await node.publish(publish(use, use), callOf());
          }
        expect(await written(lab.at(target("rw", "rw"), "file"))).toBe("written");
        expect(await written(lab.at(target("ro", "ro"), "file"))).toBe("EROFS");
        expect(await readFile(lab.at(target("ro", "ro"), "file"), "utf8")).toBe("text");
        const [gone, left] = ending === "first" ? [first, second] : [second, first];
        expect(await codeOf(node.unstage(unstage(gone), callOf()))).toBe("failed-precondition");
        await node.unpublish(unpublish(gone, gone), callOf());
        for (let twice = 0; twice < 2; twice++) await node.unstage(unstage(gone), callOf());
        expect(await lab.mounted()).toEqual([target(left, left), staging(left)].sort());
        expect(await codeOf(node.unstage(unstage(left), callOf()))).toBe("failed-precondition");
        // Another process continues with what is left, and with a third use.
        const next = lab.node();
        await next.stage(stage(gone), callOf());
        await next.publish(publish("again", gone), callOf());
        await next.unpublish(unpublish("again", gone), callOf());
        await next.unpublish(unpublish(left, left), callOf());
        await next.unstage(unstage(left), callOf());
        await next.unstage(unstage(gone), callOf());
        expect(await lab.mounted()).toEqual([]);
        expect(await readdir(lab.at("records"))).toEqual([]);
        expect(await readFile(join(source, "file"), "utf8")).toBe("text");
      });

  const share: Attacher = {
    access: { kinds: ["mount"], filesystems: "any", sharedWriters: true },
    attach: async () => ({ kind: "share", fsType: "tmpfs", source: "share", options: [] }),
  };
  test.each(["hostpath", "share"])("a writer follows a reader whose access mode is read-only, on a %s", async kind => {
    await lab.source("a");
    const node = kind === "share" ? lab.node(local, mountinfo, { attachers: new Map([["share", share]]) }) : lab.node();
    const context = kind === "share" ? { context: { node_attach_driver: "share" } } : {};
    const readers: Capability = { ...shared, mode: "multi-node-reader-only" };
    const of = (place: string) => lab.at(folder, place, "ro-file-system-multi-node-reader-only");
    const first = { ...stage("ro"), ...context, capability: readers, stagingPath: of("staging/default/data") };
    const target1 = of("per-alloc/one/data");
    for (let twice = 0; twice < 2; twice++) {
      await node.stage(first, callOf());
      await node.publish({ ...first, targetPath: target1, readonly: true }, callOf());
    }
    expect(await written(join(first.stagingPath, "file"))).toBe("EROFS");
    for (let twice = 0; twice < 2; twice++) {
      await node.stage({ ...stage("rw"), ...context }, callOf());
      await node.publish({ ...publish("two", "rw"), ...context }, callOf());
    }
    expect(await written(lab.at(target("two", "rw"), "file"))).toBe("written");
    expect(await readFile(join(target1, "file"), "utf8")).toBe("text");
    expect(await written(join(target1, "file"))).toBe("EROFS");
    expect(await written(join(first.stagingPath, "file"))).toBe("EROFS");
    await node.unpublish({ volumeId: "a", targetPath: target1 }, callOf());
    await node.unstage({ volumeId: "a", stagingPath: first.stagingPath }, callOf());
    expect(await written(lab.at(target("two", "rw"), "file"))).toBe("written");
    await node.unpublish(unpublish("two", "rw"), callOf());
    await node.unstage(unstage("rw"), callOf());
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test("is detached with the last staging only", async () => {
    await lab.source("a");
    const runner = spying();
    const node = lab.node(runner);
    for (const use of ["rw", "ro"] as const) await node.stage(stage(use), callOf());
    const [record = ""] = await readdir(lab.at("records"));
    await node.unstage(unstage("rw"), callOf());
    expect(JSON.parse(await readFile(lab.at("records", record), "utf8"))).toMatchObject({
      stagingPath: lab.at(staging("ro")),
      further: [],
    });
    await node.unstage(unstage("ro"), callOf());
    expect(await readdir(lab.at("records"))).toEqual([]);
    expect(runner.ran.map(line => line.split(" ")[0])).toEqual(["mount", "mount", "umount", "umount"]);
  });

  test("keeps one staging path per volume elsewhere, with another capability, and in another plugin's folder", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(stage("rw"), callOf());
    const kubelet = lab.at("plugins/kubernetes.io/csi/csimux/x/globalmount");
    for (const other of [
      { ...stage("ro"), stagingPath: kubelet },
      { ...stage("ro"), stagingPath: lab.at("staging", "elsewhere") },
      stage("ro", "client/csi/node/other"),
    ])
      expect(await codeOf(node.stage(other, callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual([staging("rw")]);
  });

  test("is unstaged while another volume, which is the same folder, is used", async () => {
    await lab.source("a");
    const ofOther = (path: string) => lab.at(path.replace("/data/", "/other/"));
    const other = { ...stage("rw"), volumeId: "b", stagingPath: ofOther(staging("rw")) };
    const targetPath = ofOther(target("two", "rw"));
    const node = lab.node();
    for (const each of [stage("rw"), other]) await node.stage(each, callOf());
    await node.publish({ ...other, targetPath, readonly: false }, callOf());
    await node.unstage(unstage("rw"), callOf());
    expect((await lab.mounted()).map(at => lab.at(at))).toEqual([targetPath, other.stagingPath]);
    await node.unpublish({ volumeId: "b", targetPath }, callOf());
    await node.unstage({ volumeId: "b", stagingPath: other.stagingPath }, callOf());
    expect(await lab.mounted()).toEqual([]);
  });

  test("takes nothing over that is mounted at the second path", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(stage("rw"), callOf());
    await lab.bind(await lab.source("b"), lab.at(staging("ro")));
    expect(await codeOf(node.stage(stage("ro"), callOf()))).toBe("already-exists");
    expect(await lab.mounted()).toEqual([staging("ro"), staging("rw")]);
  });
});

describe.skipIf(!hasLoops)("a disk that Nomad stages twice", () => {
  for (const kind of ["mount", "block"] as const)
    test(`as ${kind} stays attached until the last staging path is gone`, async () => {
      using disk = new Disk();
      const detached: string[] = [];
      const attacher: Attacher = {
        access: { kinds: ["mount", "block"], filesystems: ["ext4"], sharedWriters: false },
        attach: async () => disk.device,
        detach: async ({ volumeId }) => void detached.push(volumeId),
      };
      const node = lab.node(local, mountinfo, { attachers: new Map([["disk", attacher]]) });
      const attachment = kind === "mount" ? "file-system" : "block-device";
      const capability: Capability =
        kind === "mount" ? { ...writer, fsType: "ext4" } : { kind, mode: "single-node-writer", ...noFilesystem };
      const stagingOf = (use: Use) => lab.at(folder, `staging/default/data/${use}-${attachment}-single-node-writer`);
      const targetPath = lab.at(folder, `per-alloc/one/data/ro-${attachment}-single-node-writer`);
      const wanted = (use: Use) => ({
        ...lab.stage("a", { context: { node_attach_driver: "disk" }, capability }),
        stagingPath: stagingOf(use),
      });
      for (const use of ["rw", "ro"] as const) await node.stage(wanted(use), callOf());
      await node.publish({ ...wanted("ro"), targetPath, readonly: kind === "mount" }, callOf());
      await node.unstage({ volumeId: "a", stagingPath: stagingOf("rw") }, callOf());
      expect(detached).toEqual([]);
      expect(await codeOf(node.unstage({ volumeId: "a", stagingPath: stagingOf("ro") }, callOf()))).toBe(
        "failed-precondition",
      );
      await node.unpublish({ volumeId: "a", targetPath }, callOf());
      await node.unstage({ volumeId: "a", stagingPath: stagingOf("ro") }, callOf());
      expect(detached).toEqual(["a"]);
      expect(await lab.mounted()).toEqual([]);
    });
});

describe.skipIf(!isRoot)("without records, as after a container of Nomad was replaced", () => {
  const forget = () => rm(lab.at("records"), { recursive: true });

  test("what is mounted in the plugin's folder is published again, unpublished and unstaged", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(stage("rw"), callOf());
    await node.publish(publish("one", "rw"), callOf());
    await forget();
    const next = lab.node();
    await next.publish(publish("two", "rw"), callOf());
    await next.unpublish(unpublish("two", "rw"), callOf());
    // The record was made again, and does not know the older target.
    expect(await codeOf(next.unstage(unstage("rw"), callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual([target("one", "rw"), staging("rw")].sort());
    await next.unpublish(unpublish("one", "rw"), callOf());
    await next.unstage(unstage("rw"), callOf());
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test("a container sees the plugin's folder where Nomad mounts it", async () => {
    await lab.source("a");
    await lab.bind(lab.at("base"), lab.at("base"));
    await mkdir(lab.at(folder), { recursive: true });
    await lab.bind(lab.at(folder), lab.at("local/csi"));
    const node = lab.node();
    await node.stage(stage("rw", "local/csi"), callOf());
    await forget();
    await lab.node().unstage(unstage("rw", "local/csi"), callOf());
    expect((await lab.mounted()).filter(at => at.includes("staging"))).toEqual([]);
  });

  test.each(["elsewhere", "client/csi/controller/csimux", "host/csi/volumes"])(
    "nothing is unmounted below %s, outside of the folders of plugins",
    async base => {
      await lab.source("a");
      const node = lab.node();
      await node.stage(stage("rw", base), callOf());
      await forget();
      expect(await codeOf(lab.node().unstage(unstage("rw", base), callOf()))).toBe("failed-precondition");
      expect(await lab.mounted()).toEqual([staging("rw", base)]);
    },
  );

  test("a path that the record of another volume names is left to that volume", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(stage("rw"), callOf());
    const other = { ...unstage("rw"), volumeId: "b" };
    expect(await codeOf(node.unstage(other, callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual([staging("rw")]);
  });
});

test.skipIf(!isRoot)(
  "every interruption of staging and unstaging for two uses is continued by the next process",
  async () => {
    await lab.source("a");
    const life = async (node: ReturnType<Lab["node"]>) => {
      for (const use of ["rw", "ro"] as const) await node.stage(stage(use), callOf());
      for (const use of ["rw", "ro"] as const) await node.publish(publish(use, use), callOf());
      await node.unpublish(unpublish("rw", "rw"), callOf());
      await node.unstage(unstage("rw"), callOf());
      expect(await readFile(lab.at(target("ro", "ro"), "file"), "utf8")).toBe("text");
      await node.unpublish(unpublish("ro", "ro"), callOf());
      await node.unstage(unstage("ro"), callOf());
    };
    await writeFile(lab.at("base", "a", "file"), "text");
    const whole = spying();
    await life(lab.node(whole));
    expect(whole.ran.length).toBeGreaterThan(6);
    for (let at = 1; at <= whole.ran.length; at++)
      for (const when of ["before", "after"] as const) {
        const dying = spying(async (command, count) => {
          if (count < at) return;
          if (count === at && when === "after") await local.run(command, new AbortController().signal);
          throw new Error("the process ended");
        });
        await life(lab.node(dying)).catch(() => {});
        await life(lab.node());
        expect(await lab.mounted()).toEqual([]);
        expect(await readdir(lab.at("records"))).toEqual([]);
      }
  },
);
