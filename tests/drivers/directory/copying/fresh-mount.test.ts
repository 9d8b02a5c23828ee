import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";

import { CsiError } from "../../../../lib/core/errors.ts";
import { directoryDriver } from "../../../../lib/drivers/directory/driver.ts";
import type { DriverPorts } from "../../../../lib/drivers/module.ts";
import { type Files, localFiles } from "../../../../lib/io/files.ts";
import { localRunner } from "../../../../lib/io/local.ts";
import { localHost } from "../../../../lib/io/local-host.ts";
import type { ShareSettings } from "../../../../lib/io/share-point.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { isHostRoot } from "../../../root.ts";
import { temporaryFolder } from "../directory-rig.ts";
import { abilities, needed } from "./rig.ts";

const call = callWith();

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
  for (const name of ["share", "apart", "other"]) await mkdir(`${base}/${name}`);
  execFileSync("mount", ["--bind", `${base}/share`, `${base}/apart`]);
});
afterEach(async () => {
  execFileSync("umount", [`${base}/apart`]);
  await rm(base, { recursive: true, force: true });
});

interface Situation {
  /** The options of the present mount in mountinfo. */
  readonly options?: string;
  /** Where the mount for copies is, or why there is none. */
  readonly apart: string | CsiError | undefined;
}

/** A connection of nfs-client whose share the deployment has mounted; counts the mounts for copies that are in use. */
async function opened({ options = "rw,vers=4.2", apart }: Situation) {
  const asked: ShareSettings[] = [];
  let users = 0;
  // No real mount has this number: the numbers of a new mount namespace must differ from all that are seen here.
  const nfs = `2147483647 1 0:99 / ${base}/share rw - nfs4 nas:/export ${options}\n`;
  const files: Files = {
    ...localFiles,
    statfs: async path => ({ ...(await localFiles.statfs(path)), type: 0x6969 }),
    readText: async path =>
      path === "/proc/self/mountinfo" ? `${await readFile(path, "utf8")}${nfs}` : localFiles.readText(path),
  };
  const share: DriverPorts["share"] = settings => {
    const isApart = settings.mountFlags.includes("actimeo=0");
    if (isApart) {
      asked.push(settings);
      users++;
    }
    const folder = async () => {
      if (typeof apart === "string") return apart;
      throw apart ?? new Error("not asked");
    };
    return { value: { folder, renew: folder }, release: async () => void (isApart && users--) };
  };
  const settings = {
    ...{ shareHost: "nas", shareBasePath: "/export", controllerBasePath: `${base}/share`, mode: undefined },
    ...{ user: undefined, group: undefined, requireMount: true, snapshotDriver: "filecopy" },
    ...{ restic: undefined, kopia: undefined },
  };
  const refuse = () => {
    throw new Error("no ssh here");
  };
  const runner = localRunner({ env: { PATH: process.env["PATH"] ?? "" } });
  const ports = { local: localHost(runner), ssh: refuse, ...(apart !== undefined && { share }) };
  const identity = {
    connection: "a",
    driver: "nfs-client",
    instanceId: undefined,
    maxIdBytes: 60,
    mountFlags: ["hard"],
  };
  const driver = directoryDriver("nfs-client", identity, settings, ports, files);
  await driver.create(volumeOf("v"), call);
  await writeFile(`${base}/share/v/v/file`, "content");
  const { copySource } = abilities(driver);
  const snapshot = await copySource.protect({ kind: "volume", id: "v" }, "v:b/copy", 0, call);
  const read = (isStopped: boolean) =>
    needed(copySource.tree)(snapshot, call, async ({ path }) => [path, users], isStopped).catch((error: CsiError) => [
      error.code,
      error.message,
    ]);
  return { asked, read, users: () => users };
}

describe.skipIf(!isHostRoot)("a volume on NFS is read for a copy", () => {
  test("from a mount of its own, which keeps no attributes and ends with the copy", async () => {
    const { asked, read, users } = await opened({ apart: `${base}/apart` });
    for (const isStopped of [false, true]) expect(await read(isStopped)).toEqual([`${base}/apart/v/v`, 1]);
    expect(asked[0]).toEqual({
      protocol: "nfs",
      context: { server: "nas", share: "/export" },
      mountFlags: ["hard", "nosharecache", "actimeo=0"],
    });
    expect(users()).toBe(0);
  });

  test.each([
    ["csimux may not mount", new CsiError("failed-precondition", "mount.nfs is missing"), "failed-precondition"],
    ["the server does not answer", new CsiError("unavailable", "no route to host"), "unavailable"],
    ["nothing can be mounted here", undefined, "failed-precondition"],
    ["the share is another folder", "other", "failed-precondition"],
  ])("from the deployment's mount only until the stop: %s", async (_, apart, code) => {
    const { read } = await opened({ apart: apart === "other" ? `${base}/other` : apart });
    expect(await read(false)).toEqual([`${base}/share/v/v`, apart === undefined ? 0 : 1]);
    const [refused, text] = await read(true);
    expect(refused).toBe(code);
    if (code === "failed-precondition") expect(text).toMatch(/nosharecache,actimeo=0.*repeat the command/);
  });

  test.each(["rw,noac", "rw,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0"])(
    "from the deployment's mount also after the stop if that keeps no attributes: %s",
    async options => {
      const { read } = await opened({ options, apart: undefined });
      expect(await read(true)).toEqual([`${base}/share/v/v`, 0]);
    },
  );
});
