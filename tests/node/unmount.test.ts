import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CommandError } from "../../lib/io/runner.ts";
import { hasLoops, sh } from "./disks/disk.ts";
import { callOf, calm, codeOf, isRoot, keptLog, Lab, local } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

describe.skipIf(!isRoot)("an unmount", () => {
  const holding = async (folder: string, work: () => Promise<void>): Promise<void> => {
    const call = new AbortController();
    const holder = local.run(
      { argv: ["sh", "-c", 'cd "$1" && echo ready > /proc/self/fd/1; exec sleep 60', "sh", folder] },
      call.signal,
    );
    const ended = holder.catch((error: unknown) => error);
    const deadline = Date.now() + 30_000;
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

  test("of a busy target or staging path fails with that reason, and succeeds once it is free", async () => {
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

  test.skipIf(!hasLoops)(
    "that a mount or a loop device keeps from ending names it, and succeeds without it",
    async () => {
      await lab.source("a");
      const node = lab.node();
      await node.stage(lab.stage("a"), callOf());
      await node.publish(lab.publish("a"), callOf());
      const targetPath = lab.at("pods", "a", "mount");
      const unpublish = () => node.unpublish({ volumeId: "a", targetPath }, callOf());
      const inner = join(targetPath, "inner");
      await lab.bind(await lab.source("b"), inner);
      await expect(unpublish()).rejects.toThrow(`; unmount ${inner}, which is mounted below it`);
      sh('umount "$1"', inner);
      const image = join(targetPath, "image");
      const loop = sh('truncate -s 1M "$1"; losetup -f --show "$1"', image).trim();
      try {
        await expect(unpublish()).rejects.toThrow(`; detach the loop device ${loop} from its file ${image}`);
      } finally {
        sh('losetup -d "$1"', loop);
      }
      await unpublish();
      expect(await lab.mounted()).toEqual(["staging/a"]);
    },
  );

  test("removes every layer", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    for (let i = 0; i < 3; i++) await lab.bind(lab.at("staging", "a"), lab.at("pods", "a", "mount"));
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    expect(await lab.mounted()).toEqual(["staging/a"]);
  });

  test("of a hidden mount names the one that hides it, and succeeds once that is gone", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await lab.bind(await lab.source("cover"), lab.at("pods"));
    const target = { volumeId: "a", targetPath: lab.at("pods", "a", "mount") };
    const failure = await node.unpublish(target, callOf()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "unavailable", message: expect.stringContaining(`at ${lab.at("pods")};`) });
    await local.run({ argv: ["umount", lab.at("pods")] }, calm);
    await node.unpublish(target, callOf());
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

  test("of an unmounted path succeeds", async () => {
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

  test("keeps folders and files that hold data, or that csimux did not create", async () => {
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

  test("succeeds when the disk of the records is full, and leaves nothing of the volume", async () => {
    for (const name of ["a", "b"]) await lab.source(name);
    await mkdir(lab.at("records"));
    const disk = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", lab.at("records")] as const;
    expect(await local.run({ argv: disk }, calm)).toMatchObject({ exitCode: 0 });
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await local.run({ argv: ["dd", "if=/dev/zero", `of=${lab.at("records", "full")}`, "bs=4k"] }, calm);
    expect(await codeOf(node.stage(lab.stage("b"), callOf()))).toBe("resource-exhausted");
    const { log, warnings } = keptLog();
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf(calm, log));
    expect(warnings).toHaveLength(1);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await lab.mounted()).toEqual(["records"]);
    expect(await readdir(lab.at("records"))).toEqual(["full"]);
  });

  test("succeeds when the disk of the records is read-only, and staging then reports the reason", async () => {
    for (const name of ["a", "b"]) await lab.source(name);
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    await lab.bind(lab.at("records"), lab.at("records"));
    await local.run({ argv: ["mount", "-o", "remount,bind,ro", lab.at("records")] }, calm);
    const failure = await node.stage(lab.stage("b"), callOf()).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("writing the record"),
    });
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    const staging = { volumeId: "a", stagingPath: lab.at("staging", "a") };
    expect(await codeOf(node.unstage(staging, callOf()))).toBe("failed-precondition");
    await local.run({ argv: ["umount", lab.at("records")] }, calm);
    await node.unstage(staging, callOf());
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records"))).toEqual([]);
  });

  test("of a staging path fails until all targets are unmounted", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await node.publish(lab.publish("a"), callOf());
    const staging = { volumeId: "a", stagingPath: lab.at("staging", "a") };
    expect(await codeOf(node.unstage(staging, callOf()))).toBe("failed-precondition");
    expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: staging.stagingPath }, callOf()))).toBe(
      "invalid-argument",
    );
    const target = { volumeId: "a", stagingPath: lab.at("pods", "a", "mount") };
    expect(await codeOf(node.unstage(target, callOf()))).toBe("invalid-argument");
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
  });
});
