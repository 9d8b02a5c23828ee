import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rmdir, stat, symlink, writeFile } from "node:fs/promises";
import type { AccessMode, Capability } from "../../lib/core/access.ts";
import { isHostRoot } from "../root.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, spying, writer } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const errno = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "written",
    (error: NodeJS.ErrnoException) => error.code,
  );

describe.skipIf(!isRoot)("one volume", () => {
  test("goes through its life cycle with four commands and leaves nothing", async () => {
    const source = await lab.source("a");
    const runner = spying();
    const node = lab.node(runner);
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await writeFile(lab.at("pods", "a", "mount", "file"), "text");
    expect(await readFile(`${source}/file`, "utf8")).toBe("text");
    const { usage } = await node.stats({ volumeId: "a", path: lab.at("pods", "a", "mount") }, callOf());
    const [bytes, inodes] = usage;
    expect(bytes?.unit).toBe("bytes");
    expect(bytes?.total).toBeGreaterThan(0n);
    expect(inodes === undefined || (inodes.used ?? 0n) > 0n).toBe(true);
    await node.expand({ volumeId: "a", path: lab.at("pods", "a", "mount") }, undefined, callOf());
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    expect(await readdir(lab.at("pods", "a"))).toEqual([]);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
    expect(await readFile(`${source}/file`, "utf8")).toBe("text");
    expect(runner.ran.map(line => line.split(" ")[0])).toEqual(["mount", "mount", "umount", "umount"]);
  });

  test("can repeat every step without another mount", async () => {
    await lab.source("a");
    const runner = spying();
    const node = lab.node(runner);
    for (let i = 0; i < 5; i++) await node.stage(lab.stage("a"), callOf());
    for (let i = 0; i < 5; i++) await node.publish(lab.publish("a"), callOf());
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
    for (let i = 0; i < 3; i++)
      await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    for (let i = 0; i < 3; i++) await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(runner.ran).toHaveLength(4);
  });

  test("is really read-only when published so, and staged writable", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a", { readonly: true }), callOf());
    expect(await errno(writeFile(lab.at("pods", "a", "mount", "file"), ""))).toBe("EROFS");
    expect(await errno(writeFile(lab.at("staging", "a", "file"), ""))).toBe("written");
  });

  test("is read-only and has its flags in other mount namespaces as well, as in the host's view of a node pod", async () => {
    await lab.source("a");
    await lab.bind(await lab.source("kubelet"), lab.at("pod"));
    // Leaves the peer group of "/", which is shared on most machines: mounts made here would also appear in the source.
    for (const propagation of ["--make-private", "--make-shared"])
      await local.run({ argv: ["mount", propagation, lab.at("pod")] }, calm);
    await lab.bind(lab.at("pod"), lab.at("host"));
    const capability: Capability = { ...writer, mountFlags: ["noexec"] };
    const stagingPath = lab.at("pod", "s");
    const publish = lab.publish("a", { capability, stagingPath, targetPath: lab.at("pod", "t"), readonly: true });
    const node = lab.node();
    await node.stage(lab.stage("a", { capability, stagingPath }), callOf());
    await node.publish(publish, callOf());
    const mounts = await lab.mounts();
    const seen = mounts.map(({ at, options }) => [at.slice(lab.folder.length + 1), options.toSorted().join()]);
    expect(Object.fromEntries(seen)).toEqual({
      pod: "relatime,rw",
      host: "relatime,rw",
      "pod/s": "noexec,relatime,rw",
      "host/s": "noexec,relatime,rw",
      "pod/t": "noexec,relatime,ro",
      "host/t": "noexec,relatime,ro",
    });
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pod", "t") }, callOf());
    await node.unstage({ volumeId: "a", stagingPath }, callOf());
    expect(await lab.mounted()).toEqual(["host", "pod"]);
  });

  test.each<AccessMode>(["single-node-reader-only", "multi-node-reader-only"])(
    "with mode %s is staged read-only",
    async mode => {
      await lab.source("a");
      const node = lab.node();
      const capability: Capability = { ...writer, mode };
      await node.stage(lab.stage("a", { capability }), callOf());
      expect(await errno(writeFile(lab.at("staging", "a", "file"), ""))).toBe("EROFS");
      expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("failed-precondition");
      await node.publish(lab.publish("a", { capability }), callOf());
      expect(await errno(writeFile(lab.at("pods", "a", "mount", "file"), ""))).toBe("EROFS");
    },
  );

  test.skipIf(!isHostRoot)(
    "gets the flags that a bind mount can have and those of its source, and no others",
    async () => {
      await lab.source("a");
      await lab.bind(lab.at("base"), lab.at("base"));
      await local.run({ argv: ["mount", "-o", "remount,bind,nodev", lab.at("base")] }, calm);
      const capability = { ...writer, mountFlags: ["nfsvers=3", "nosuid,noatime", "context=x", "exec"] };
      const node = lab.node();
      await node.stage(lab.stage("a", { capability }), callOf());
      await node.publish(lab.publish("a", { capability, readonly: true }), callOf());
      const mounts = await lab.mounts();
      expect(mounts.find(({ at }) => at.endsWith("/staging/a"))?.options.toSorted()).toEqual([
        "noatime",
        "nodev",
        "nosuid",
        "rw",
      ]);
      expect(mounts.find(({ at }) => at.endsWith("/mount"))?.options.toSorted()).toEqual([
        "noatime",
        "nodev",
        "nosuid",
        "ro",
      ]);
    },
  );

  test("cannot be staged writable from a read-only mount", async () => {
    await lab.source("a");
    await lab.bind(lab.at("base"), lab.at("base"));
    await local.run({ argv: ["mount", "-o", "remount,bind,ro", lab.at("base")] }, calm);
    expect(await codeOf(lab.node().stage(lab.stage("a"), callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual(["base"]);
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test.skipIf(!isHostRoot)(
    "cannot be staged writable from a read-only file system, even if its mount is writable",
    async () => {
      await lab.source("fs");
      await mkdir(lab.at("first"));
      for (const argv of [
        ["mount", "-t", "tmpfs", "none", lab.at("first")],
        ["mkdir", lab.at("first", "a")],
        ["mount", "--bind", lab.at("first"), lab.at("base", "fs")],
        ["mount", "-o", "remount,ro", lab.at("first")],
      ] as const)
        expect(await local.run({ argv }, calm)).toMatchObject({ exitCode: 0 });
      const context = { node_attach_driver: "hostpath", path: lab.at("base", "fs", "a") };
      expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe("failed-precondition");
      const capability: Capability = { ...writer, mode: "multi-node-reader-only" };
      await lab.node().stage(lab.stage("a", { context, capability }), callOf());
    },
  );

  test("whose folder was deleted is not published again, and the error says so", async () => {
    const source = await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await rmdir(source);
    const failure = await node.publish(lab.publish("a"), callOf()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ message: expect.stringContaining("was removed); end all pods") });
    expect(await lab.mounted()).toEqual(["staging/a"]);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
  });

  test("is published at a target that an old kubelet created, and at one without parent folders", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await mkdir(lab.at("pods", "a", "mount"), { recursive: true });
    await node.publish(lab.publish("a"), callOf());
    await node.publish(lab.publish("a", { targetPath: lab.at("x", "y", "z") }), callOf());
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a", "x/y/z"]);
    await node.unpublish({ volumeId: "a", targetPath: lab.at("x", "y", "z") }, callOf());
    expect(await readdir(lab.at("x"))).toEqual(["y"]);
    expect((await stat(lab.at("x", "y"))).mode & 0o777).toBe(0o750 & ~process.umask());
  });

  test("works with spaces, tabs, backslashes and non-ASCII letters in names", async () => {
    const name = "a b\\040#\u00fc\u4e2d";
    await lab.source(name);
    const node = lab.node();
    await node.stage(lab.stage(name), callOf());
    await node.stage(lab.stage(name), callOf());
    await node.publish(lab.publish(name), callOf());
    await node.unpublish({ volumeId: name, targetPath: lab.at("pods", name, "mount") }, callOf());
    await node.unstage({ volumeId: name, stagingPath: lab.at("staging", name) }, callOf());
    expect(await lab.mounted()).toEqual([]);
  });

  test("is found through a symbolic link in a parent folder", async () => {
    await lab.source("a");
    await mkdir(lab.at("real"));
    await symlink(lab.at("real"), lab.at("kubelet"));
    const node = lab.node();
    const stagingPath = lab.at("kubelet", "s");
    const targetPath = lab.at("kubelet", "pod", "t");
    for (let i = 0; i < 2; i++) await node.stage(lab.stage("a", { stagingPath }), callOf());
    for (let i = 0; i < 2; i++) await node.publish(lab.publish("a", { stagingPath, targetPath }), callOf());
    expect(await lab.mounted()).toEqual(["real/pod/t", "real/s"]);
    await node.stats({ volumeId: "a", path: targetPath }, callOf());
    await node.unpublish({ volumeId: "a", targetPath }, callOf());
    await node.unstage({ volumeId: "a", stagingPath }, callOf());
    expect(await lab.mounted()).toEqual([]);
  });
});
