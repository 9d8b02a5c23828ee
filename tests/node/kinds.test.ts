import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, readdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { CsiError } from "../../lib/core/errors.ts";
import type { Command } from "../../lib/io/runner.ts";
import type {
  Attached,
  AttachedDevice,
  Attacher,
  Attachment,
  AttachRequest,
  SaveNotes,
} from "../../lib/node/attach/attacher.ts";
import type { Disks } from "../../lib/node/disks/disk-filesystems.ts";
import { otherFlags } from "../../lib/node/mount/flags.ts";
import type { NodePorts, NodeVolumes } from "../../lib/node/volumes.ts";
import { hasLoops } from "./disks/disk.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, mountinfo, spying, writer } from "./lab.ts";

let lab: Lab;
const loops: string[] = [];
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(async () => {
  await lab.close();
  for (const loop of loops.splice(0)) await local.run({ argv: ["losetup", "-d", loop] }, calm);
});

/** A test attacher that records its attachment in the notes before attaching, and remembers all requests. */
class Toy implements Attacher {
  readonly access = { kinds: ["mount", "block"], filesystems: "any", sharedWriters: true } as const;
  readonly attached = new Set<string>();
  readonly detached: (readonly string[])[] = [];
  fails: "attach" | "detach" | "both" | undefined;
  readonly #what: (wanted: AttachRequest) => Attached;

  constructor(what: (wanted: AttachRequest) => Attached) {
    this.#what = what;
  }

  readonly lockOf = () => "target";

  async attach(wanted: AttachRequest, note: SaveNotes): Promise<Attached> {
    await note({ session: `of ${wanted.volumeId}` });
    this.attached.add(wanted.volumeId);
    if (this.fails === "attach" || this.fails === "both") throw new CsiError("permission-denied", "wrong password");
    return this.#what(wanted);
  }

  readonly detach = async ({ volumeId, notes }: Attachment, others: readonly Attachment[]) => {
    if (this.fails === "detach" || this.fails === "both") throw new CsiError("internal", "cannot log out");
    expect(notes["session"]).toBe(`of ${volumeId}`);
    this.attached.delete(volumeId);
    this.detached.push([volumeId, ...others.map(other => other.volumeId)]);
  };

  readonly grow = async () => 42n;
}

/** A tmpfs in place of a server's share: a mount by type and source, with an identity that is unknown beforehand. */
const share = (): Toy =>
  new Toy(({ volumeId, capability }) => ({
    kind: "share",
    fsType: "tmpfs",
    source: `server:/${volumeId}`,
    options: ["size=1m", ...otherFlags(capability.mountFlags)],
  }));

const grown: string[] = [];
const lost = new Set<string>();
/** Formats any unformatted disk, without the safety checks of the real one. */
const disks: Disks = {
  hold: async () => ({ prove: async () => {}, release: async () => {} }),
  async prepare(device) {
    const { stdout } = await local.run({ argv: ["blkid", "-p", "-o", "value", "-s", "TYPE", device.path] }, calm);
    if (stdout.trim() === "") await local.run({ argv: ["mkfs.ext4", "-q", device.path] }, calm);
    return { source: device.path, number: device.number, fsType: "ext4", options: ["nodelalloc"] };
  },
  async grow({ source }, at) {
    grown.push(`${source} ${at}`);
    return 16n << 20n;
  },
  protect: async () => {},
  isGone: async number => lost.has(number),
  bytes: async () => 16n << 20n,
};

async function loopDevice(image = "image"): Promise<AttachedDevice> {
  await truncate(lab.at(image), 16 << 20).catch(async () => {
    await writeFile(lab.at(image), "");
    await truncate(lab.at(image), 16 << 20);
  });
  const { stdout } = await local.run({ argv: ["losetup", "-f", "--show", lab.at(image)] }, calm);
  const path = stdout.trim();
  loops.push(path);
  const { rdev } = await stat(path);
  return { kind: "device", path, number: `${rdev >> 8}:${rdev & 0xff}`, identity: "disk one", proof: {} };
}

const context = { node_attach_driver: "toy" };
const nodeOf = (toy: Attacher, more: Partial<NodePorts> = {}): NodeVolumes =>
  lab.node(local, mountinfo, { attachers: new Map([["toy", toy]]), disks, ...more });
const record = async (): Promise<string> =>
  await readFile(lab.at("records", (await readdir(lab.at("records")))[0] ?? ""), "utf8");
const target = () => lab.at("pods", "a", "mount");
const unpublish = (node: NodeVolumes) => node.unpublish({ volumeId: "a", targetPath: target() }, callOf());
const unstage = (node: NodeVolumes) => node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());

describe.skipIf(!isRoot)("a share", () => {
  test("is mounted by staging, visible after publishing, and gone after unstaging", async () => {
    const toy = share();
    const node = nodeOf(toy);
    for (let twice = 0; twice < 2; twice++) await node.stage(lab.stage("a", { context }), callOf());
    for (let twice = 0; twice < 2; twice++) await node.publish(lab.publish("a", { context }), callOf());
    const mounts = await lab.mounts();
    expect(mounts.map(({ source, fsType }) => `${fsType} ${source}`)).toEqual(Array(2).fill("tmpfs server:/a"));
    expect(await record()).toContain(`"attached":{"kind":"share","fsType":"tmpfs","source":"server:/a"}`);
    expect(await node.expand({ volumeId: "a", path: target() }, 42n, callOf())).toBe(42n);
    await unpublish(node);
    await unstage(node);
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
    expect(toy.detached).toEqual([["a"]]);
  });

  test("with a read-only mode is mounted read-only from the start", async () => {
    const capability = { ...writer, mode: "multi-node-reader-only" } as const;
    const node = nodeOf(share());
    await node.stage(lab.stage("a", { context, capability }), callOf());
    expect((await lab.mounts())[0]).toMatchObject({ options: expect.arrayContaining(["ro"]), readOnly: true });
    await unstage(node);
  });

  test("gets the flags of its class as options of the mount", async () => {
    const capability = { ...writer, mountFlags: ["nosuid,nr_inodes=77", "noatime"] } as const;
    const runner = spying();
    await nodeOf(share(), { runner }).stage(lab.stage("a", { context, capability }), callOf());
    expect(runner.ran).toEqual([
      `mount -n -t tmpfs -o noatime,nosuid,size=1m,nr_inodes=77 server:/a ${lab.at("staging", "a")}`,
    ]);
  });

  test("is not mounted over a foreign mount", async () => {
    await lab.source("other");
    await lab.bind(lab.at("base", "other"), lab.at("staging", "a"));
    const toy = share();
    expect(await codeOf(nodeOf(toy).stage(lab.stage("a", { context }), callOf()))).toBe("already-exists");
    expect(await lab.mounted()).toEqual(["staging/a"]);
    expect(toy.attached.size).toBe(0);
  });

  test("that was mounted by an interrupted call is kept by the retry", async () => {
    const dying = {
      ...local,
      async run(command: Command, signal: AbortSignal) {
        await local.run(command, signal);
        throw new CsiError("unavailable", "ended");
      },
    };
    expect(await codeOf(nodeOf(share(), { runner: dying }).stage(lab.stage("a", { context }), callOf()))).toBe(
      "unavailable",
    );
    await nodeOf(share()).stage(lab.stage("a", { context }), callOf());
    expect(await lab.mounted()).toEqual(["staging/a"]);
    expect(await record()).toContain('"shows":{"device"');
    await unstage(nodeOf(share()));
  });
});

describe.skipIf(!isRoot)("a failed staging", () => {
  test("detaches what it attached and leaves no record", async () => {
    const toy = share();
    toy.fails = "attach";
    expect(await codeOf(nodeOf(toy).stage(lab.stage("a", { context }), callOf()))).toBe("permission-denied");
    expect(toy.attached.size).toBe(0);
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test("whose cleanup fails reports the first error with a code that is not final", async () => {
    const toy = share();
    toy.fails = "both";
    const failed = nodeOf(toy).stage(lab.stage("a", { context }), callOf());
    await expect(failed).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/^wrong password.*cannot log out/),
    });
    expect(await readdir(lab.at("records"))).toHaveLength(1);
    toy.fails = undefined;
    await unstage(nodeOf(toy));
    expect(await readdir(lab.at("records"))).toEqual([]);
    expect(toy.attached.size).toBe(0);
  });
});

describe.skipIf(!isRoot)("an unstaging", () => {
  test("keeps the record until detaching succeeds, and passes the other attachments", async () => {
    const toy = share();
    const node = nodeOf(toy);
    await node.stage(lab.stage("a", { context }), callOf());
    await node.stage(lab.stage("b", { context }), callOf());
    toy.fails = "detach";
    expect(await codeOf(unstage(node))).toBe("internal");
    expect(await readdir(lab.at("records"))).toHaveLength(2);
    toy.fails = undefined;
    await unstage(nodeOf(toy));
    expect(toy.detached).toEqual([["a", "b"]]);
  });
});

describe.skipIf(!hasLoops)("a volume that is still mounted", () => {
  const nothingUnmounts = (exitCode: number): Pick<NodePorts, "runner"> => ({
    runner: {
      ...local,
      run: (command: Command, signal: AbortSignal) =>
        command.argv[0] === "umount"
          ? Promise.resolve({ exitCode, stdout: "", stderr: exitCode === 0 ? "" : "umount: target is busy." })
          : local.run(command, signal),
    },
  });

  test.each([0, 32])("is never detached, whatever exit code umount returns: %p", async exitCode => {
    const device = await loopDevice();
    const toy = new Toy(() => device);
    await nodeOf(toy).stage(lab.stage("a", { context }), callOf());
    expect(await codeOf(unstage(nodeOf(toy, nothingUnmounts(exitCode))))).toBe("unavailable");
    expect([toy.detached, await lab.mounted()]).toEqual([[], ["staging/a"]]);
    await unstage(nodeOf(toy));
    expect([toy.detached, await lab.mounted()]).toEqual([[["a"]], []]);
  });

  test("is not detached while a program uses it", async () => {
    const device = await loopDevice();
    const toy = new Toy(() => device);
    const node = nodeOf(toy);
    await node.stage(lab.stage("a", { context }), callOf());
    const inside = spawn("sleep", ["600"], { cwd: lab.at("staging", "a") });
    await once(inside, "spawn");
    expect(await codeOf(unstage(node))).toBe("unavailable");
    expect(toy.detached).toEqual([]);
    inside.kill("SIGKILL");
    await once(inside, "exit");
    await unstage(node);
    expect(toy.detached).toEqual([["a"]]);
  });
});

describe.skipIf(!hasLoops)("a device", () => {
  test("that was lost and came back as another one is mounted again, and reports its loss until then", async () => {
    const first = await loopDevice();
    let device = first;
    const node = nodeOf(new Toy(() => device));
    await node.stage(lab.stage("a", { context }), callOf());
    await writeFile(lab.at("staging", "a", "file"), "data");
    await local.run({ argv: ["sync", "-f", lab.at("staging", "a")] }, calm);
    await copyFile(lab.at("image"), lab.at("image-2"));
    device = { ...(await loopDevice("image-2")), identity: first.identity };
    await node.stage(lab.stage("a", { context }), callOf());
    expect((await lab.mounts())[0]?.source).toBe(first.path);
    lost.add(first.number);
    const placed = { volumeId: "a", path: lab.at("staging", "a") };
    expect((await node.stats(placed, callOf())).conditions).toMatchObject([{ reason: "DeviceGone" }]);
    await node.stage(lab.stage("a", { context }), callOf());
    expect((await lab.mounts()).map(({ source }) => source)).toEqual([device.path]);
    expect(await readFile(lab.at("staging", "a", "file"), "utf8")).toBe("data");
    await unstage(node);
    lost.clear();
  });

  test("is formatted and mounted, keeps its content across stagings, and is grown at every staging", async () => {
    const device = await loopDevice();
    const toy = new Toy(() => device);
    const node = nodeOf(toy);
    grown.length = 0;
    for (let life = 0; life < 2; life++) {
      for (let twice = 0; twice < 2; twice++) await node.stage(lab.stage("a", { context }), callOf());
      await node.publish(lab.publish("a", { context }), callOf());
      if (life === 0) await writeFile(`${target()}/file`, "data");
      expect(await readFile(`${target()}/file`, "utf8")).toBe("data");
      await unpublish(node);
      await unstage(node);
    }
    expect(grown).toEqual(Array(4).fill(`${device.path} ${lab.at("staging", "a")}`));
    expect(await lab.mounted()).toEqual([]);
  });

  test("is grown where it is staged, according to its record", async () => {
    const device = await loopDevice();
    const node = nodeOf(new Toy(() => device));
    await node.stage(lab.stage("a", { context }), callOf());
    await node.publish(lab.publish("a", { context }), callOf());
    grown.length = 0;
    expect(await node.expand({ volumeId: "a", path: target() }, undefined, callOf())).toBe(42n);
    expect(grown).toEqual([`${device.path} ${lab.at("staging", "a")}`]);
  });

  test("is published as a device file for block access", async () => {
    const device = await loopDevice();
    const capability = { ...writer, kind: "block" } as const;
    const node = nodeOf(new Toy(() => device));
    await mkdir(lab.at("staging", "a"), { recursive: true });
    for (let twice = 0; twice < 2; twice++) await node.stage(lab.stage("a", { context, capability }), callOf());
    for (let twice = 0; twice < 2; twice++) await node.publish(lab.publish("a", { context, capability }), callOf());
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a/block_device"]);
    expect((await stat(target())).rdev).toBe((await stat(device.path)).rdev);
    expect((await node.stats({ volumeId: "a", path: target() }, callOf())).usage).toEqual([
      { unit: "bytes", total: 16n << 20n },
    ]);
    await unpublish(node);
    expect(await readdir(lab.at("pods", "a"))).toEqual([]);
    await unstage(node);
    expect(await readdir(lab.at("staging", "a"))).toEqual([]);
    expect(await lab.mounted()).toEqual([]);
  });
});

test.skipIf(!isRoot)(
  "volumes of one target are attached one at a time, volumes of other targets concurrently",
  async () => {
    const gate = Promise.withResolvers<void>();
    let within = 0;
    let most = 0;
    const toy: Attacher = {
      access: share().access,
      lockOf: ({ target }) => target,
      async attach({ volumeId }) {
        most = Math.max(most, ++within);
        await gate.promise;
        within--;
        return { kind: "share", fsType: "tmpfs", source: volumeId, options: [] };
      },
    };
    const node = nodeOf(toy);
    const stage = (name: string, on: string) =>
      node.stage(lab.stage(name, { context: { ...context, target: on } }), callOf());
    const impatient = new AbortController();
    const all = [stage("a", "x"), stage("b", "x"), stage("c", "y")];
    while (within < 2) await new Promise(resolve => setImmediate(resolve));
    const given = codeOf(
      node.stage(lab.stage("d", { context: { ...context, target: "x" } }), callOf(impatient.signal)),
    );
    impatient.abort(new CsiError("unavailable", "ended"));
    expect(await given).toBe("unavailable");
    gate.resolve();
    await Promise.all(all);
    expect(most).toBe(2);
    expect(await lab.mounted()).toEqual(["staging/a", "staging/b", "staging/c"]);
  },
);

test.skipIf(!isRoot)("the record of an older version is read, and its volume can be unstaged", async () => {
  await lab.source("a");
  await lab.node().stage(lab.stage("a"), callOf());
  const [file = ""] = await readdir(lab.at("records"));
  const { attached, notes, ...old } = JSON.parse(await readFile(lab.at("records", file), "utf8"));
  expect([attached, notes]).toEqual([undefined, {}]);
  await writeFile(lab.at("records", file), JSON.stringify(old));
  await lab.node().publish(lab.publish("a"), callOf());
  await unpublish(lab.node());
  await unstage(lab.node());
  expect(await lab.mounted()).toEqual([]);
  expect(await readdir(lab.at("records"))).toEqual([]);
});
