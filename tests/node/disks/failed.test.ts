import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { release } from "node:os";
import { basename } from "node:path";
import { CsiError } from "../../../lib/core/errors.ts";
import type { Attacher } from "../../../lib/node/attach/attacher.ts";
import type { Disks } from "../../../lib/node/disks/disk-filesystems.ts";
import type { NodeVolumes } from "../../../lib/node/volumes.ts";
import { callOf, Lab, local, mountinfo, writer } from "../lab.ts";
import { changed, Disk, hasLoops, hasProgram, leastFor, sh, unused } from "./disk.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const context = { node_attach_driver: "disk" };
const staged = () => lab.at("staging", "a");
const target = (pod: string) => lab.at("pods", pod);

/** What pods and the kubelet do with volume "a"; each answers "ok" or the code and the message. */
function useOf(device: () => Disk["device"], fsType: string, disks: Disks = lab.disks(local)) {
  const attacher: Attacher = {
    access: { kinds: ["mount"], filesystems: [fsType], sharedWriters: false },
    attach: async () => device(),
  };
  const node: NodeVolumes = lab.node(local, mountinfo, { attachers: new Map([["disk", attacher]]), disks });
  const capability = { ...writer, fsType };
  const answer = (work: Promise<void>): Promise<string> =>
    work.then(
      () => "ok",
      (error: unknown) => (error instanceof CsiError ? `${error.code}: ${error.message}` : Promise.reject(error)),
    );
  return {
    stage: () => answer(node.stage(lab.stage("a", { context, capability }), callOf())),
    publish: (pod: string, readonly = false) =>
      answer(node.publish(lab.publish("a", { context, capability, targetPath: target(pod), readonly }), callOf())),
    unpublish: (pod: string) => answer(node.unpublish({ volumeId: "a", targetPath: target(pod) }, callOf())),
    unstage: () => answer(node.unstage({ volumeId: "a", stagingPath: staged() }, callOf())),
    health: async () =>
      (await node.health({ volumeId: "a", path: "" }, callOf())).map(({ reason, message }) => `${reason}: ${message}`),
  };
}

/** Whether ext4 says in the mount table that it was shut down or became read-only (Linux 6.15, _ext4_show_options). */
const [major = 0, minor = 0] = release().split(".").map(Number);
const ext4Tells = major > 6 || (major === 6 && minor >= 15);

const failed = /^unavailable: the file system of volume "a" has failed \(.*\); end all pods that use it on this node$/;

/** A process with mounts of its own, as a container has them: what the node unmounts stays mounted there until the process ends. */
async function container(): Promise<() => Promise<void>> {
  const child = spawn("unshare", ["-m", "sh", "-c", "echo; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
  await new Promise(resolve => child.stdout.once("data", resolve));
  return async () => {
    const ended = new Promise(resolve => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  };
}

for (const fsType of ["xfs", "ext4"])
  test.skipIf(!hasLoops || !hasProgram("xfs_io") || (fsType === "ext4" && !ext4Tells))(
    `${fsType} that the kernel has shut down is published to no pod, and is mounted again when nothing uses it any more`,
    async () => {
      using disk = new Disk(leastFor(fsType));
      const { stage, publish, unpublish, unstage, health } = useOf(() => disk.device, fsType);
      expect([await stage(), await publish("one")]).toEqual(["ok", "ok"]);
      await writeFile(`${target("one")}/file`, "kept");
      sh('sync -f "$1"; xfs_io -x -c shutdown "$1"', staged());
      for (const work of [() => publish("two"), () => publish("one"), stage]) expect(await work()).toMatch(failed);
      expect(await health()).toMatchObject([expect.stringMatching(/^FileSystemFailed: /)]);
      expect(await lab.mounted()).toEqual(["pods/one", "staging/a"]);
      const end = await container();
      await unpublish("one");
      expect([await stage(), await publish("two")]).toEqual([
        expect.stringMatching(failed),
        expect.stringMatching(failed),
      ]);
      await end();
      expect([await unused(stage), await publish("two")]).toEqual(["ok", "ok"]);
      expect([await readFile(`${target("two")}/file`, "utf8"), await health()]).toEqual(["kept", []]);
      expect([await unpublish("two"), await unstage(), await lab.mounted()]).toEqual(["ok", "ok", []]);
    },
  );

test.skipIf(!hasLoops || !ext4Tells)(
  "ext4 that has become read-only is published to readers, and repaired when no pod uses it",
  async () => {
    using disk = new Disk();
    const { stage, publish, unpublish, health } = useOf(() => disk.device, "ext4");
    expect([await stage(), await publish("one")]).toEqual(["ok", "ok"]);
    await writeFile(`/sys/fs/ext4/${basename(disk.path)}/trigger_fs_error`, "a test");
    const readOnly =
      'failed-precondition: the file system of volume "a" has become read-only after an error; end all pods that use it on this node';
    expect([await publish("two"), await publish("one"), await publish("three", true), await stage()]).toEqual([
      readOnly,
      readOnly,
      "ok",
      "ok",
    ]);
    expect((await health())[0]).toMatch(/^ReadOnlyFileSystem: /);
    const end = await container();
    for (const pod of ["one", "three"]) expect(await unpublish(pod)).toBe("ok");
    expect(await stage()).toMatch(/^unavailable: .*end all pods that use it on this node$/);
    await end();
    expect([await unused(stage), await publish("two"), await health()]).toEqual(["ok", "ok", []]);
    await writeFile(`${target("two")}/file`, "writable");
  },
);

test.skipIf(!hasLoops)(
  "a disk that was lost is published to no pod, and a target that still shows it is bound again",
  async () => {
    using first = new Disk();
    using second = new Disk();
    const lost = new Set<string>();
    const disks = changed(lab.disks(local), { isGone: async number => lost.has(number) });
    let disk = first;
    const { stage, publish } = useOf(() => ({ ...disk.device, identity: "one disk" }), "ext4", disks);
    expect([await stage(), await publish("one")]).toEqual(["ok", "ok"]);
    lost.add(first.device.number);
    expect([await publish("two"), await publish("one")]).toEqual([
      expect.stringMatching(failed),
      expect.stringMatching(failed),
    ]);
    disk = second;
    expect([await stage(), await publish("two"), await publish("one")]).toEqual(["ok", "ok", "ok"]);
    expect(new Set((await lab.mounts()).map(({ device }) => device))).toEqual(new Set([second.device.number]));
  },
);

for (const kind of ["mount", "block"] as const)
  test.skipIf(!hasLoops)(`a disk that is replaced right before it is mounted is not mounted (${kind})`, async () => {
    using disk = new Disk();
    let isReplaced = false;
    const real = lab.disks(local);
    const disks = changed(real, {
      async hold(...words) {
        const held = await real.hold(...words);
        isReplaced = kind === "block";
        const prove = async () => {
          if (isReplaced) throw new CsiError("unavailable", "not the disk that was attached");
        };
        return { ...held, prove };
      },
      async prepare(...words) {
        const mountable = await real.prepare(...words);
        isReplaced = true;
        return mountable;
      },
    });
    const attacher: Attacher = {
      access: { kinds: [kind], filesystems: ["ext4"], sharedWriters: false },
      attach: async () => disk.device,
    };
    const node = lab.node(local, mountinfo, { attachers: new Map([["disk", attacher]]), disks });
    const staging = node.stage(lab.stage("a", { context, capability: { ...writer, kind } }), callOf());
    await expect(staging).rejects.toThrow("not the disk that was attached");
    expect(await lab.mounted()).toEqual([]);
  });
