import { afterEach, beforeEach, expect, test } from "bun:test";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import { attachers } from "../../../lib/node/attach/attachers.ts";
import type { NodeVolumes } from "../../../lib/node/volumes.ts";
import { MountProgram } from "../../fakes/mount-program.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, mountinfo } from "../lab.ts";

let lab: Lab;
let mount: MountProgram;
beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
});
afterEach(() => lab.close());

/** The mount table of a node on which another mount of the same file system came first, under another name of its server. */
async function copyTable(): Promise<void> {
  const text = await readFile(mountinfo, "utf8");
  await writeFile(
    lab.at("mountinfo"),
    text.replaceAll(" ramfs nas:", " nfs4 10.0.0.1:").replaceAll(" ramfs //", " cifs //"),
  );
}

/** Runs programs; `cut`: the call ends when a share has just been mounted. */
const runnerOf = (cut: boolean): CommandRunner => ({
  where: "local",
  async run(command, signal) {
    const output = await mount.runner.run(command, signal);
    await copyTable();
    const isShare = ["nfs", "cifs"].some(type => command.argv.includes(type));
    if (cut && isShare) throw new CommandError("local", "mount", "cancelled", "the process was killed");
    return output;
  },
});

function nodeWith(cut = false) {
  const runner = runnerOf(cut);
  return lab.node(runner, lab.at("mountinfo"), { host: runner, attachers: attachers(lab.ports(runner)) });
}

const context = { node_attach_driver: "nfs", server: "nas", share: "/export/v/a" };

// Linux lists every mount of a server's file system under the name that the first one used (nfs_show_devname).
test.skipIf(!isRoot)(
  "a share that the kernel shows under another name of its server is staged by the retry of a call that was cut off after the mount",
  async () => {
    await copyTable();
    expect(await codeOf(nodeWith(true).stage(lab.stage("a", { context }), callOf()))).not.toBe("ok");
    expect(await lab.mounted()).toEqual(["staging/a"]);
    const node = nodeWith();
    expect(await codeOf(node.stage(lab.stage("a", { context }), callOf()))).toBe("ok");
    expect(await codeOf(node.stage(lab.stage("a", { context }), callOf()))).toBe("ok");
    expect(await lab.mounted()).toEqual(["staging/a"]);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect([await lab.mounted(), await readdir(lab.at("records"))]).toEqual([[], []]);
  },
);

test.skipIf(!isRoot)("but not where another volume has been staged since", async () => {
  await copyTable();
  const again = () => codeOf(nodeWith().stage(lab.stage("a", { context }), callOf()));
  expect(await codeOf(nodeWith(true).stage(lab.stage("a", { context }), callOf()))).not.toBe("ok");
  await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
  await copyTable();
  const other = lab.stage("b", { context: { ...context, share: "/export/v/b" }, stagingPath: lab.at("staging", "a") });
  await nodeWith().stage(other, callOf());
  expect(await again()).toBe("already-exists");
  expect((await lab.mounts()).map(({ source }) => source)).toEqual(["nas:/export/v/b"]);
});

test.skipIf(!isRoot)(
  "no failure is final while the share of a call that was cut off after the mount is mounted",
  async () => {
    await copyTable();
    const smb = { node_attach_driver: "smb", server: "nas", share: "data" };
    const stage = (node: NodeVolumes, username: string) =>
      codeOf(
        node.stage(lab.stage("a", { context: smb }), callOf(undefined, undefined, { username, password: "secret" })),
      );
    expect(await stage(nodeWith(true), "joe")).not.toBe("ok");
    // The secret was changed meanwhile. After a final failure, the kubelet would never unstage the volume.
    expect(await stage(nodeWith(), "joe,uid=0")).toBe("unavailable");
    expect(await lab.mounted()).toEqual(["staging/a"]);
    await nodeWith().unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect([await lab.mounted(), await readdir(lab.at("records"))]).toEqual([[], []]);
    expect(await stage(nodeWith(), "joe,uid=0")).toBe("invalid-argument");
  },
);
