import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFile, mkdir, readdir, readFile, rmdir, stat, symlink, unlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { AccessMode, Capability } from "../../lib/core/access.ts";
import { CommandError } from "../../lib/io/runner.ts";
import { callOf, calm, codeOf, isRoot, keptLog, Lab, local, spying, writer } from "./lab.ts";

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
  test("goes through its life with four programs, and nothing is left", async () => {
    const source = await lab.source("a");
    const runner = spying();
    const node = lab.node(runner);
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await writeFile(lab.at("pods", "a", "mount", "file"), "text");
    expect(await readFile(`${source}/file`, "utf8")).toBe("text");
    const [bytes, inodes] = await node.stats({ volumeId: "a", path: lab.at("pods", "a", "mount") }, callOf());
    expect(bytes?.unit).toBe("bytes");
    expect(bytes?.total).toBeGreaterThan(0n);
    expect(inodes === undefined || inodes.used > 0n).toBe(true);
    await node.expand({ volumeId: "a", path: lab.at("pods", "a", "mount") }, callOf());
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    expect(await readdir(lab.at("pods", "a"))).toEqual([]);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
    expect(await readFile(`${source}/file`, "utf8")).toBe("text");
    expect(runner.ran.map(line => line.split(" ")[0])).toEqual(["mount", "mount", "umount", "umount"]);
  });

  test("may be asked for every step again and again without another mount", async () => {
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

  test("is published read-only in truth, and staged writable", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a", { readonly: true }), callOf());
    expect(await errno(writeFile(lab.at("pods", "a", "mount", "file"), ""))).toBe("EROFS");
    expect(await errno(writeFile(lab.at("staging", "a", "file"), ""))).toBe("written");
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

  test("gets the flags that a bind mount can carry, keeps those of its source, and no others", async () => {
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
  });

  test("cannot be staged writable from a read-only mount", async () => {
    await lab.source("a");
    await lab.bind(lab.at("base"), lab.at("base"));
    await local.run({ argv: ["mount", "-o", "remount,bind,ro", lab.at("base")] }, calm);
    expect(await codeOf(lab.node().stage(lab.stage("a"), callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual(["base"]);
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test("is published at a target that an old kubelet made, and without its parents", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await mkdir(lab.at("pods", "a", "mount"), { recursive: true });
    await node.publish(lab.publish("a"), callOf());
    await node.publish(lab.publish("a", { targetPath: lab.at("x", "y", "z") }), callOf());
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a", "x/y/z"]);
    await node.unpublish({ volumeId: "a", targetPath: lab.at("x", "y", "z") }, callOf());
    expect(await readdir(lab.at("x"))).toEqual(["y"]);
    expect((await stat(lab.at("x", "y"))).mode & 0o777).toBe(0o750);
  });

  test("survives names with spaces, tabs, backslashes and letters of the world", async () => {
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

  test("is found through a symbolic link among the parents of its paths", async () => {
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

describe.skipIf(!isRoot)("what is refused", () => {
  test.each<[string, Record<string, string>, string]>([
    ["no protocol", { path: "/" }, "invalid-argument"],
    ["an unknown protocol", { node_attach_driver: "floppy", path: "/x" }, "invalid-argument"],
    [
      "a protocol named like a member of every object",
      { node_attach_driver: "__proto__", path: "/x" },
      "invalid-argument",
    ],
    ["no path", { node_attach_driver: "hostpath" }, "invalid-argument"],
    ["a relative path", { node_attach_driver: "hostpath", path: "etc" }, "invalid-argument"],
    ["the root", { node_attach_driver: "hostpath", path: "/" }, "invalid-argument"],
    ["a way upwards", { node_attach_driver: "hostpath", path: "/tmp/../etc" }, "invalid-argument"],
    ["a missing folder", { node_attach_driver: "hostpath", path: "/no/such/folder" }, "not-found"],
    ["a file", { node_attach_driver: "hostpath", path: "/etc/passwd" }, "failed-precondition"],
    ["a device", { node_attach_driver: "hostpath", path: "/dev/null" }, "failed-precondition"],
  ])("is a volume with %s", async (_, context, code) => {
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe(code);
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
  });

  test("is a source that is a symbolic link, but not one below a link", async () => {
    await lab.source("a");
    await symlink(lab.at("base", "a"), lab.at("base", "link"));
    await symlink(lab.at("base"), lab.at("other"));
    expect(await codeOf(lab.node().stage(lab.stage("link"), callOf()))).toBe("failed-precondition");
    const context = { node_attach_driver: "hostpath", path: lab.at("other", "a") };
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe("ok");
  });

  test("is a source that holds the staging path, or lies in it", async () => {
    const context = { node_attach_driver: "hostpath", path: lab.folder };
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe("failed-precondition");
    await lab.source("b");
    expect(await codeOf(lab.node().stage(lab.stage("b", { stagingPath: lab.at("base") }), callOf()))).toBe(
      "failed-precondition",
    );
  });

  test("is block access", async () => {
    await lab.source("a");
    const capability: Capability = { ...writer, kind: "block" };
    expect(await codeOf(lab.node().stage(lab.stage("a", { capability }), callOf()))).toBe("failed-precondition");
    await lab.node().stage(lab.stage("a"), callOf());
    expect(await codeOf(lab.node().publish(lab.publish("a", { capability }), callOf()))).toBe("failed-precondition");
  });

  test.each(["", "relative", "/a/../b", "/a\0b", "/a\nb", `/${"x".repeat(5000)}`, "/", "//"])(
    "is the path %j",
    async path => {
      const node = lab.node();
      await lab.source("a");
      expect(await codeOf(node.stage(lab.stage("a", { stagingPath: path }), callOf()))).toBe("invalid-argument");
      expect(await codeOf(node.unstage({ volumeId: "a", stagingPath: path }, callOf()))).toBe("invalid-argument");
      expect(await codeOf(node.publish(lab.publish("a", { targetPath: path }), callOf()))).toBe("invalid-argument");
      expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: path }, callOf()))).toBe("invalid-argument");
      const placed = path === "" ? "invalid-argument" : "not-found";
      expect(await codeOf(node.stats({ volumeId: "a", path }, callOf()))).toBe(placed);
      expect(await codeOf(node.expand({ volumeId: "a", path }, callOf()))).toBe(placed);
    },
  );

  test("is an empty volume id", async () => {
    const node = lab.node();
    expect(await codeOf(node.stage(lab.stage("a", { volumeId: "" }), callOf()))).toBe("invalid-argument");
    expect(await codeOf(node.stats({ volumeId: "", path: "/a" }, callOf()))).toBe("invalid-argument");
  });

  test("is a publish without a staging path or without a staged volume", async () => {
    await lab.source("a");
    const node = lab.node();
    expect(await codeOf(node.publish(lab.publish("a", { stagingPath: undefined }), callOf()))).toBe(
      "failed-precondition",
    );
    expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("failed-precondition");
    await node.stage(lab.stage("a"), callOf());
    await lab.source("b");
    await node.stage(lab.stage("b"), callOf());
    const wrong = lab.publish("a", { stagingPath: lab.at("staging", "b") });
    expect(await codeOf(node.publish(wrong, callOf()))).toBe("failed-precondition");
    const inside = lab.publish("a", { targetPath: lab.at("staging", "a", "inner") });
    expect(await codeOf(node.publish(inside, callOf()))).toBe("invalid-argument");
    expect(await lab.mounted()).toEqual(["staging/a", "staging/b"]);
  });

  test("is a target that is a link or a file", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await mkdir(lab.at("pods", "a"), { recursive: true });
    await mkdir(lab.at("elsewhere"));
    await symlink(lab.at("elsewhere"), lab.at("pods", "a", "mount"));
    expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("failed-precondition");
    await writeFile(lab.at("file"), "");
    expect(await codeOf(node.publish(lab.publish("a", { targetPath: lab.at("file") }), callOf()))).toBe(
      "failed-precondition",
    );
    expect(await codeOf(node.publish(lab.publish("a", { targetPath: lab.at("file", "x") }), callOf()))).toBe(
      "failed-precondition",
    );
    expect(await lab.mounted()).toEqual(["staging/a"]);
    expect(await node.stage(lab.stage("a"), callOf())).toBeUndefined();
  });

  test("is to expand or measure what is not there", async () => {
    await lab.source("a");
    const node = lab.node();
    for (const path of ["some/path", "/", lab.folder, lab.at("staging", "a")]) {
      expect(await codeOf(node.stats({ volumeId: "a", path }, callOf()))).toBe("not-found");
      expect(await codeOf(node.expand({ volumeId: "a", path }, callOf()))).toBe("not-found");
    }
    await node.stage(lab.stage("a"), callOf());
    expect(await codeOf(node.stats({ volumeId: "b", path: lab.at("staging", "a") }, callOf()))).toBe("not-found");
    expect(await codeOf(node.stats({ volumeId: "a", path: lab.at("staging", "a") }, callOf()))).toBe("ok");
  });
});

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

  test("differs from one whose pod tokens changed", async () => {
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

  test("waits for nobody: the volume and the path are taken", async () => {
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

describe.skipIf(!isRoot)("an unmount", () => {
  const holding = async (folder: string, work: () => Promise<void>): Promise<void> => {
    const call = new AbortController();
    const holder = local.run(
      { argv: ["sh", "-c", 'cd "$1" && echo ready > /proc/self/fd/1; exec sleep 60', "sh", folder] },
      call.signal,
    );
    const ended = holder.catch((error: unknown) => error);
    const deadline = Date.now() + 5_000;
    const isInside = async (): Promise<boolean> =>
      (
        await local.run({ argv: ["sh", "-c", 'for p in /proc/[0-9]*/cwd; do readlink "$p"; done'] }, calm)
      ).stdout.includes(folder);
    while (!(await isInside())) if (Date.now() > deadline) throw new Error("the holder did not start");
    try {
      await work();
    } finally {
      call.abort();
      expect(await ended).toBeInstanceOf(CommandError);
    }
  };

  test("of a busy target or staging path says so, and works once it is free", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    const target = { volumeId: "a", targetPath: lab.at("pods", "a", "mount") };
    const staging = { volumeId: "a", stagingPath: lab.at("staging", "a") };
    await holding(target.targetPath, async () => {
      expect(await codeOf(node.unpublish(target, callOf()))).toBe("unavailable");
      expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
    });
    await node.unpublish(target, callOf());
    await holding(staging.stagingPath, async () => {
      expect(await codeOf(node.unstage(staging, callOf()))).toBe("unavailable");
      expect(await readdir(lab.at("records"))).toHaveLength(1);
    });
    await node.unstage(staging, callOf());
    expect(await lab.mounted()).toEqual([]);
  });

  test("takes every layer", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    for (let i = 0; i < 3; i++) await lab.bind(lab.at("staging", "a"), lab.at("pods", "a", "mount"));
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    expect(await lab.mounted()).toEqual(["staging/a"]);
  });

  test("removes an empty file at its target, and leaves a file with content", async () => {
    const targetPath = lab.at("pods/1/volumes/kubernetes.io~csi/pv/mount");
    await mkdir(dirname(targetPath), { recursive: true });
    await writeFile(targetPath, "data");
    expect(await codeOf(lab.node().unpublish({ volumeId: "a", targetPath }, callOf()))).toBe("failed-precondition");
    expect(await readFile(targetPath, "utf8")).toBe("data");
    await writeFile(targetPath, "");
    expect(await codeOf(lab.node().unpublish({ volumeId: "a", targetPath }, callOf()))).toBe("ok");
    expect(await readdir(dirname(targetPath))).toEqual([]);
  });

  test("of what nobody mounted is done already", async () => {
    const node = lab.node();
    expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: lab.at("no", "such", "path") }, callOf()))).toBe(
      "ok",
    );
    expect(await codeOf(node.unstage({ volumeId: "a", stagingPath: lab.at("no", "such", "path") }, callOf()))).toBe(
      "ok",
    );
    await writeFile(lab.at("file"), "data");
    expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: lab.at("file", "below") }, callOf()))).toBe("ok");
  });

  test("of a mount that csimux did not make is refused", async () => {
    await lab.bind(await lab.source("a"), lab.at("foreign"));
    const node = lab.node();
    expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: lab.at("foreign") }, callOf()))).toBe(
      "failed-precondition",
    );
    expect(await codeOf(node.unstage({ volumeId: "a", stagingPath: lab.at("foreign") }, callOf()))).toBe(
      "failed-precondition",
    );
    expect(await lab.mounted()).toEqual(["foreign"]);
  });

  test("leaves folders and files that hold something, or are not ours", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    const target = { volumeId: "a", targetPath: lab.at("pods", "a", "mount") };
    await mkdir(target.targetPath, { recursive: true });
    await writeFile(`${target.targetPath}/kept`, "data");
    await node.publish(lab.publish("a"), callOf());
    expect(await codeOf(node.unpublish(target, callOf()))).toBe("failed-precondition");
    expect(await lab.mounted()).toEqual(["staging/a"]);
    expect(await readFile(`${target.targetPath}/kept`, "utf8")).toBe("data");
    await mkdir(lab.at("empty"));
    await node.unpublish({ volumeId: "a", targetPath: lab.at("empty") }, callOf());
    expect(await readdir(lab.folder)).toContain("empty");
  });

  test("of a staging path waits for the targets", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    const staging = { volumeId: "a", stagingPath: lab.at("staging", "a") };
    expect(await codeOf(node.unstage(staging, callOf()))).toBe("failed-precondition");
    expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: staging.stagingPath }, callOf()))).toBe(
      "invalid-argument",
    );
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
  });
});

describe.skipIf(!isRoot)("after a restart", () => {
  test("everything goes on from the records", async () => {
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

  test("of the machine the records do not stand in the way", async () => {
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
    "a record that reads %j is put aside, and kubelet's paths still work",
    async text => {
      await lab.source("a");
      const stagingPath = lab.at("plugins/kubernetes.io/csi/x/globalmount");
      const targetPath = lab.at("pods/1/volumes/kubernetes.io~csi/pv/mount");
      const request = lab.publish("a", { stagingPath, targetPath });
      await lab.node().stage(lab.stage("a", { stagingPath }), callOf());
      await lab.node().publish(request, callOf());
      const [file = ""] = await readdir(lab.at("records"));
      await writeFile(lab.at("records", file), text);
      const { log, warnings } = keptLog();
      await lab.node().stats({ volumeId: "a", path: targetPath }, callOf(calm, log));
      expect(warnings).toHaveLength(1);
      const files = await readdir(lab.at("records"));
      expect(files).toHaveLength(1);
      expect(await readFile(lab.at("records", files[0] ?? ""), "utf8")).toBe(text);
      expect(await codeOf(lab.node().expand({ volumeId: "a", path: targetPath }, callOf()))).toBe(
        "failed-precondition",
      );
      await lab.node().publish(request, callOf());
      expect(await codeOf(lab.node().expand({ volumeId: "a", path: targetPath }, callOf()))).toBe("ok");
      await lab.node().unpublish({ volumeId: "a", targetPath }, callOf());
      await lab.node().unstage({ volumeId: "a", stagingPath }, callOf());
      expect(await lab.mounted()).toEqual([]);
    },
  );

  test("the record of another volume under this volume's name is no record of it", async () => {
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

  test("without records a target that is mounted otherwise than asked is not taken for done", async () => {
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

  test("a volume is never published from where another one is staged", async () => {
    await lab.source("a");
    await lab.source("b");
    const stagingPath = lab.at("plugins/kubernetes.io/csi/x/globalmount");
    await lab.node().stage(lab.stage("b", { stagingPath }), callOf());
    expect(await codeOf(lab.node().publish(lab.publish("a", { stagingPath }), callOf()))).toBe("failed-precondition");
    expect(await codeOf(lab.node().unstage({ volumeId: "a", stagingPath }, callOf()))).toBe("failed-precondition");
  });

  test("a folder of records that is none is no lost record", async () => {
    await lab.source("a");
    await writeFile(lab.at("records"), "");
    expect(await codeOf(lab.node().stage(lab.stage("a"), callOf()))).toBe("unavailable");
    expect(await lab.mounted()).toEqual([]);
  });
});

describe.skipIf(!isRoot)("a source that went away", () => {
  test("can still be unpublished and unstaged", async () => {
    const source = await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await rmdir(source);
    expect(await codeOf(node.stage(lab.stage("a"), callOf()))).toBe("not-found");
    expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("ok");
    await mkdir(source);
    expect(await codeOf(node.stage(lab.stage("a"), callOf()))).toBe("already-exists");
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await readdir(dirname(source))).toEqual(["a"]);
  });
});
