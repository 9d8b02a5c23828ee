import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { protocols } from "../../../lib/core/access.ts";
import { directoryDriver } from "../../../lib/drivers/directory/driver.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { shareAttachers } from "../../../lib/node/attach/attachers.ts";
import { Mounts } from "../../../lib/node/mount/mounts.ts";
import { SharePoints } from "../../../lib/node/mount/share-points.ts";
import { snapshotsOf } from "../../contract/rig.ts";
import { MountProgram } from "../../fakes/mount-program.ts";
import { callOf, calm, codeOf, isRoot, keptLog, local } from "../../node/lab.ts";
import { plainSettings } from "./directory-rig.ts";

let folder: string;
let mount: MountProgram;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "csimux-own-mount-")));
  mount = await MountProgram.at(join(folder, "bin"));
});
afterEach(async () => {
  for (const at of [...(await mounted())].reverse()) execFileSync("umount", ["-l", at]);
  await rm(folder, { recursive: true });
});

const shares = () => join(folder, "shares");
async function mounted(): Promise<readonly string[]> {
  const points = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map(line => line.split(" ")[4] ?? "");
  return points.filter(point => point.startsWith(folder));
}

/** The fake server's shares count as NFS where the fake program has mounted them, and nothing else does. */
const files = (isNfs: (path: string) => boolean): Files => ({
  ...localFiles,
  statfs: async path => ({ ...(await localFiles.statfs(path)), type: isNfs(path) ? 0x6969 : 1 }),
});

const points = (mountinfo = "/proc/self/mountinfo"): SharePoints => {
  const { runner } = mount;
  const mounts = new Mounts(runner, runner, mountinfo, shares());
  const { log } = keptLog();
  return new SharePoints({ attachers: shareAttachers({ hostMounts: false }), mounts, folder: shares(), log });
};

function driverOn(own: SharePoints, name: string, isNfs = (path: string) => path.startsWith(shares())): Driver {
  const settings = { ...plainSettings(join(folder, "storage")), shareHost: "nas", shareBasePath: "/export/k8s/" };
  const identity = {
    connection: name,
    driver: "nfs-client",
    instanceId: undefined,
    maxIdBytes: 60,
    mountFlags: ["hard"],
  };
  const refuse = () => {
    throw new Error("no ssh here");
  };
  const ports = { local: localHost(mount.runner), ssh: refuse, share: own.lease.bind(own) };
  return directoryDriver("nfs-client", identity, settings, ports, files(isNfs));
}

const spec = (name: string) => ({
  name,
  range: { required: undefined, limit: undefined },
  parameters: {},
  mutable: {},
  source: undefined,
});

describe.skipIf(!isRoot)("a share that the deployment did not mount", () => {
  test.each([false, true])(
    "is mounted by csimux, and the controller's own disk stays empty (folder there: %p)",
    async is => {
      if (is) await mkdir(join(folder, "storage"));
      const own = points();
      const driver = driverOn(own, "one");
      const made = await driver.create(spec("pvc-1"), callOf());
      expect(made.context).toMatchObject({ server: "nas", share: "/export/k8s/v/pvc-1" });
      const [at = "", ...more] = await mounted();
      expect(more).toEqual([]);
      expect(await mount.calls()).toEqual([`-n -t nfs -o retry=0,hard nas:/export/k8s ${at}`]);
      expect(await readdir(join(at, "v"))).toEqual(["pvc-1"]);
      if (is) expect(await readdir(join(folder, "storage"))).toEqual([]);
      await driver.delete("pvc-1", callOf());
      await own.close();
      expect(await mounted()).toEqual([]);
      expect(await readdir(shares())).toEqual([]);
    },
  );

  test("is mounted once for all connections, even if they start at once", async () => {
    const own = points();
    const drivers = ["one", "two", "three"].map(name => driverOn(own, name));
    await Promise.all(drivers.map((driver, at) => driver.create(spec(`pvc-${at}`), callOf())));
    expect(await mount.calls()).toHaveLength(1);
    await drivers[0]?.close?.();
    expect(await mounted()).toHaveLength(1);
    await own.close();
    expect(await mounted()).toEqual([]);
  });

  test("is mounted again for a connection that opens while an unused mount is being removed", async () => {
    const [asked, gate, gone] = [0, 1, 2].map(() => Promise.withResolvers<void>());
    const slow: CommandRunner = {
      where: "local",
      async run(command, signal) {
        if (command.argv[0] !== "umount") return await local.run(command, signal);
        asked?.resolve();
        await gate?.promise;
        return await local.run(command, signal).finally(() => gone?.resolve());
      },
    };
    const mounts = new Mounts(slow, slow, "/proc/self/mountinfo", shares());
    const attach = async () => ({ kind: "share", fsType: "ramfs", source: "nas:/export/k8s", options: [] }) as const;
    const attachers = new Map([["nfs", { access: protocols.nfs, attach }]]);
    const own = new SharePoints({ attachers, mounts, folder: shares(), log: keptLog().log });
    const settings = { protocol: "nfs", context: { server: "nas", share: "/export/k8s" }, mountFlags: [] };
    const first = own.lease(settings);
    await first.value.folder(calm);
    await first.release();
    await asked?.promise;
    const found = own.lease(settings).value.folder(calm);
    for (let turn = 0; turn < 1000; turn++) await new Promise(setImmediate);
    gate?.resolve();
    await gone?.promise;
    const at = await found;
    expect(await mounted()).toEqual([at]);
    await own.close();
  });

  test("is mounted once, whatever a killed process left", async () => {
    await driverOn(points(), "one").create(spec("pvc-1"), callOf());
    const own = points();
    await driverOn(own, "one").create(spec("pvc-1"), callOf());
    expect(await mounted()).toHaveLength(1);
    await own.close();
    expect(await mounted()).toEqual([]);
  });

  test.each([
    ["nfs4", "nas:/export/k8s", true],
    // Linux lists every mount of a server's file system under the name that the first one used (nfs_show_devname).
    ["nfs4", "[fd00::1]:/export/k8s", true],
    ["nfs4", "nas:/export/other", false],
    ["cifs", "//nas/export/k8s", false],
  ])("and that a killed process mounted is used if it is this export: %s of %s", async (type, source, isUsed) => {
    await driverOn(points(), "one").create(spec("pvc-1"), callOf());
    const shown = (await readFile("/proc/self/mountinfo", "utf8")).replaceAll(
      " ramfs nas:/export/k8s ",
      ` ${type} ${source} `,
    );
    await writeFile(join(folder, "mountinfo"), shown);
    const made = driverOn(points(join(folder, "mountinfo")), "one").create(spec("pvc-2"), callOf());
    expect(await codeOf(made)).toBe(isUsed ? "ok" : "unavailable");
    expect(await mounted()).toHaveLength(isUsed ? 1 : 0);
  });

  test("and that cannot be mounted gets no volumes, and none counts as missing", async () => {
    await mkdir(join(folder, "storage"));
    const driver = driverOn(points(), "one");
    for (const [words, code] of [
      ["mount.nfs: Connection refused", "unavailable"],
      ["mount.nfs: No such file or directory", "unavailable"],
      ["mount.nfs: access denied by server while mounting nas:/export/k8s", "permission-denied"],
    ] as const) {
      await mount.answer(words);
      // An earlier call may have made the volume.
      expect(await codeOf(driver.create(spec("pvc-1"), callOf()))).toBe("unavailable");
      expect(await codeOf(snapshotsOf(driver).create("s", "pvc-1", {}, callOf()))).toBe("unavailable");
      expect(await codeOf(driver.delete("pvc-1", callOf()))).toBe(code);
      await expect(driver.create(spec("pvc-1"), callOf())).rejects.toThrow('write "requireMount: false" if');
    }
    expect(await readdir(join(folder, "storage"))).toEqual([]);
    await mount.answer(undefined);
    await driver.create(spec("pvc-1"), callOf());
  });

  test("and that went stale is mounted again", async () => {
    let stale = false;
    const own = points();
    const mounts = () => readFileSync(join(mount.folder, "calls"), "utf8").split("\n").length - 1;
    // Mounting it again is what repairs it.
    const driver = driverOn(own, "one", path => path.startsWith(shares()) && !(stale && mounts() < 2));
    await driver.create(spec("pvc-1"), callOf());
    stale = true;
    await driver.create(spec("pvc-2"), callOf());
    expect(mounts()).toBe(2);
    expect(await mounted()).toHaveLength(1);
    await own.close();
  });
});

test.skipIf(!isRoot)("a share that first answers EAGAIN is used after another try", async () => {
  let asked = 0;
  const own = points();
  const driver = driverOn(own, "one", path => {
    if (path.startsWith(shares()) && ++asked < 3) throw Object.assign(new Error("again"), { code: "EAGAIN" });
    return path.startsWith(shares());
  });
  await driver.create(spec("pvc-1"), callOf());
  expect(await mount.calls()).toHaveLength(1);
  await own.close();
});

describe.skipIf(!isRoot)("a share that the deployment has mounted", () => {
  test("is used unchanged", async () => {
    await mkdir(join(folder, "storage"));
    const own = points();
    const driver = driverOn(own, "one", () => true);
    await driver.create(spec("pvc-1"), callOf());
    expect(await mount.calls()).toEqual([]);
    expect(await readdir(join(folder, "storage", "v"))).toEqual(["pvc-1"]);
  });
});
