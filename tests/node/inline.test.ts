import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { CsiError } from "../../lib/core/errors.ts";
import type { InlineProvisioner } from "../../lib/node/inline.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { muxWorld } from "../mux/world.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, mountinfo, writer } from "./lab.ts";

let lab: Lab;
let mount: MountProgram;
let maker: Pool;
let node: NodeVolumes;

/** A provisioner with volumes in memory. */
class Pool implements InlineProvisioner {
  readonly volumes = new Map<string, string>();
  readonly log: string[] = [];
  /** The failure to simulate, and whether the volume exists after it. */
  fault: { readonly at: "make" | "made" | "remove"; readonly code: "invalid-argument" | "unavailable" } | undefined;

  /** The source of which it is said that it is a volume; or that this cannot be said now. */
  known: string | CsiError | undefined;

  async owner(_: string, source: string) {
    if (this.known instanceof CsiError) throw this.known;
    return source === this.known ? { connection: "scratch", identity: "guid-0" } : undefined;
  }

  connectionOf(_: string, attributes: Readonly<Record<string, string>>): string {
    const { connection } = attributes;
    if (connection) return connection;
    throw new CsiError("invalid-argument", "no connection");
  }

  async make(connection: string, id: string, _: unknown, begin: (source: string) => Promise<void>) {
    this.log.push(`make ${connection}/${id}`);
    if (this.fault?.at === "make") throw new CsiError(this.fault.code, "refused");
    const source = `tank/inline/v/${id}`;
    await begin(source);
    this.volumes.set(id, this.volumes.get(id) ?? "guid-1");
    if (this.fault?.at === "made") throw new CsiError(this.fault.code, "refused");
    return { fsType: "zfs", source, identity: this.volumes.get(id) ?? "" };
  }

  async remove(connection: string, id: string, identity: string | undefined): Promise<void> {
    this.log.push(`remove ${connection}/${id} ${identity}`);
    if (this.fault?.at === "remove") throw new CsiError(this.fault.code, "refused");
    this.volumes.delete(id);
  }
}

const open = (): NodeVolumes =>
  lab.node(mount.runner, mountinfo, {
    host: mount.runner,
    inline: { maker, folder: lab.at("inline") },
  });

beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
  maker = new Pool();
  node = open();
});
afterEach(() => lab.close());

const attributes = { "csi.storage.k8s.io/ephemeral": "true", connection: "scratch" };
const target = (): string => lab.at("pods", "a", "mount");
const publish = (more: object = {}) =>
  node.publish(
    {
      ...{ volumeId: "csi-1", targetPath: target(), stagingPath: undefined, capability: writer, readonly: false },
      ...{ context: attributes, publishContext: {} },
      ...more,
    },
    callOf(),
  );
const run = (...argv: readonly [string, ...string[]]) => local.run({ argv }, calm);
const unpublish = () => node.unpublish({ volumeId: "csi-1", targetPath: target() }, callOf());
const records = () => readdir(lab.at("inline")).catch(() => []);

describe.skipIf(!isRoot)("an inline volume", () => {
  test("is created and mounted by publishing and removed by unpublishing, both repeatable", async () => {
    await publish();
    await publish();
    expect(await lab.mounted()).toEqual(["pods/a/mount"]);
    expect(await mount.calls()).toEqual([`-n -t zfs tank/inline/v/csi-1 ${target()}`]);
    await unpublish();
    await unpublish();
    expect([await lab.mounted(), [...maker.volumes], await records()]).toEqual([[], [], []]);
    expect(maker.log.at(-1)).toBe("remove scratch/csi-1 guid-1");
  });

  test("is mounted read-only if requested", async () => {
    await publish({ readonly: true });
    expect((await mount.calls())[0]).toContain("-o ro ");
    await unpublish();
  });

  test("is removed by another process, even if its creation was interrupted", async () => {
    maker.fault = { at: "made", code: "unavailable" };
    expect(await codeOf(publish())).toBe("unavailable");
    expect(maker.volumes.size).toBe(1);
    maker.fault = undefined;
    node = open();
    await unpublish();
    expect([[...maker.volumes], await records()]).toEqual([[], []]);
    await publish();
    node = open();
    await unpublish();
    expect([await lab.mounted(), [...maker.volumes], await records()]).toEqual([[], [], []]);
  });

  test("leaves nothing when it is refused; the refusal is final only if nothing is left", async () => {
    maker.fault = { at: "make", code: "invalid-argument" };
    expect(await codeOf(publish())).toBe("invalid-argument");
    expect([[...maker.volumes], await records()]).toEqual([[], []]);
    maker.fault = undefined;
    await mount.answer("mount: wrong fs type, bad option");
    const refused = await codeOf(publish());
    expect([refused === "ok", [...maker.volumes], await records()]).toEqual([false, [], []]);
    maker.fault = { at: "remove", code: "unavailable" };
    expect(await codeOf(publish())).toBe("unavailable");
    expect((await records()).length).toBe(1);
    maker.fault = undefined;
    await unpublish();
    expect([[...maker.volumes], await records()]).toEqual([[], []]);
  });

  test("keeps its content when publishing it again fails", async () => {
    await publish();
    maker.fault = { at: "make", code: "invalid-argument" };
    // After a final error, the kubelet may never unpublish it.
    expect(await codeOf(publish())).toBe("unavailable");
    expect(maker.volumes.size).toBe(1);
    maker.fault = undefined;
    await unpublish();
  });

  test("leaves nothing of an interrupted attempt when a later one is refused for good", async () => {
    const interrupted = async () => {
      maker.fault = { at: "made", code: "unavailable" };
      expect(await codeOf(publish())).toBe("unavailable");
      expect([maker.volumes.size, (await records()).length]).toEqual([1, 1]);
    };
    for (const at of ["make", "made"] as const) {
      await interrupted();
      maker.fault = { at, code: "invalid-argument" };
      expect(await codeOf(publish())).toBe("invalid-argument");
      expect([[...maker.volumes], await records()]).toEqual([[], []]);
    }
    await interrupted();
    maker.fault = undefined;
    await mount.answer("mount: wrong fs type, bad option");
    expect(await codeOf(publish())).toBe("failed-precondition");
    expect([[...maker.volumes], await records(), await lab.mounted()]).toEqual([[], [], []]);
  });

  test("is not removed while its target has a foreign mount, or another target uses it", async () => {
    await publish();
    await run("umount", target());
    await run("mount", "-t", "tmpfs", "other", target());
    expect(await codeOf(unpublish())).toBe("failed-precondition");
    expect(maker.volumes.size).toBe(1);
    await run("umount", target());
    await unpublish();
    expect(maker.volumes.size).toBe(0);
  });

  describe("without a record, as democratic-csi has published it", () => {
    const source = "tank/inline/v/csi-1";
    const at = () => lab.at("pods/1/volumes/kubernetes.io~csi/scratch/mount");
    const end = () => codeOf(node.unpublish({ volumeId: "csi-1", targetPath: at() }, callOf()));
    const told = (more: object) =>
      Bun.write(
        join(at(), "../vol_data.json"),
        JSON.stringify({ volumeHandle: "csi-1", driverName: "csimux", volumeLifecycleMode: "Ephemeral", ...more }),
      );

    beforeEach(async () => {
      await mkdir(at(), { recursive: true });
      await told({});
      await run("mount", "-t", "tmpfs", source, at());
      maker.volumes.set("csi-1", "guid-0");
      maker.known = source;
    });

    test("is removed by unpublishing it, also if that is interrupted after the unmount", async () => {
      maker.fault = { at: "remove", code: "unavailable" };
      expect([await end(), await lab.mounted(), [...maker.volumes.keys()]]).toEqual(["unavailable", [], ["csi-1"]]);
      maker.fault = undefined;
      node = open();
      expect([await end(), await lab.mounted(), [...maker.volumes.keys()]]).toEqual(["ok", [], []]);
      expect([maker.log.at(-1), await records()]).toEqual(["remove scratch/csi-1 guid-0", []]);
      expect(await end()).toBe("ok");
    });

    test("stays mounted while a connection that may have it cannot be asked", async () => {
      maker.known = new CsiError("unavailable", "no answer");
      expect([await end(), (await lab.mounted()).length, await records()]).toEqual(["unavailable", 1, []]);
      maker.known = source;
      expect([await end(), [...maker.volumes]]).toEqual(["ok", []]);
    });

    test("is only unmounted if no connection proves it to be its own, or the kubelet does not call it inline", async () => {
      maker.known = "tank/inline/v/other";
      expect([await end(), await lab.mounted(), maker.log]).toEqual(["ok", [], []]);
      maker.known = source;
      await mkdir(at(), { recursive: true });
      await run("mount", "-t", "tmpfs", source, at());
      await told({ volumeLifecycleMode: "Persistent" });
      expect([await end(), await lab.mounted(), maker.log]).toEqual(["ok", [], []]);
      await mkdir(at(), { recursive: true });
      await run("mount", "-t", "tmpfs", source, at());
      await told({ volumeHandle: "csi-2" });
      expect([await end(), maker.log]).toEqual(["failed-precondition", []]);
      await run("umount", at());
    });
  });

  test.each([
    [{ context: { "csi.storage.k8s.io/ephemeral": "true" } }, "no connection"],
    [{ capability: { ...writer, kind: "block" } }, "a device"],
    [{ capability: { ...writer, fsType: "ext4" } }, "another file system"],
    [{ capability: { ...writer, mountFlags: ["noatime"] } }, "flags"],
    [{ capability: { ...writer, mode: "multi-node-multi-writer" } }, "several nodes"],
  ])("is refused with %j", async more => {
    expect(await codeOf(publish(more))).toBe("invalid-argument");
    expect([maker.log, await records()]).toEqual([[], []]);
  });

  test("is not published at a second target, nor from another connection", async () => {
    await publish();
    expect(await codeOf(publish({ targetPath: lab.at("pods", "b", "mount") }))).toBe("already-exists");
    expect(await codeOf(publish({ context: { ...attributes, connection: "other" } }))).toBe("already-exists");
    await unpublish();
  });
});

test("a node without connections refuses inline volumes with a reason", async () => {
  const plain = lab.node(mount.runner, mountinfo, { host: mount.runner });
  const work = plain.publish(
    {
      ...{ volumeId: "csi-1", targetPath: target(), stagingPath: undefined, capability: writer, readonly: false },
      ...{ context: attributes, publishContext: {} },
    },
    callOf(),
  );
  expect(await codeOf(work)).toBe("failed-precondition");
});

test("an inline volume as other drivers take it for NFS is refused with what is not available", () => {
  const { inline } = muxWorld([]);
  expect(() => inline.connectionOf("csi-1", { server: "nas", share: "/tank" })).toThrow("NFS and other shares are not");
});
