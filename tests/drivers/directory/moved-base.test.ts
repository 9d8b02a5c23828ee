import { expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { directoryDriver } from "../../../lib/drivers/directory/driver.ts";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { callWith, gib, volumeIds, volumeOf } from "../../contract/rig.ts";
import { localPorts } from "../../fakes/ports.ts";
import { leftOn, plainSettings, systemRunner, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
const nfs = 0x6969;

test("a copy keeps the base folder of its start while other calls find the share mounted elsewhere", async () => {
  const folder = await temporaryFolder();
  const [here, there] = [join(folder, "here"), join(folder, "there")];
  for (const each of [here, there]) await mkdir(each);
  let current = here;
  let copying = async (): Promise<void> => {};
  const run: CommandRunner["run"] = async (command, signal) => {
    const output = await systemRunner.run(command, signal);
    if (command.argv.includes("cp")) await copying();
    return output;
  };
  const point = { folder: async () => current, renew: async () => current };
  const share = () => ({ value: point, release: async () => {} });
  const files: Files = {
    ...localFiles,
    statfs: async path => ({ ...(await localFiles.statfs(path)), type: path.startsWith(`${folder}/`) ? nfs : 1 }),
  };
  const settings = { ...plainSettings("/nowhere/storage"), shareHost: "nas", shareBasePath: "/export" };
  const identity = { connection: "c1", driver: "nfs-client", instanceId: undefined, maxIdBytes: 100 };
  const ports = { ...localPorts({ ...systemRunner, run }), share: share as never };
  const driver = directoryDriver("nfs-client", identity, settings, ports, files);
  try {
    await driver.create(volumeOf("a"), call);
    await writeFile(join(here, "v/a/file"), "content");
    copying = async () => {
      current = there;
      expect(await volumeIds(driver)).toEqual([]);
    };
    await driver.create(volumeOf("b", gib, { kind: "volume", id: "a" }), call);
    expect(await readFile(join(here, "v/b/file"), "utf8")).toBe("content");
    expect(await readdir(join(here, ".csimux"))).toContain("v.b.json");
    expect(await leftOn(there)).toEqual([]);
  } finally {
    await driver.close?.();
    await rm(folder, { recursive: true, force: true });
  }
}, 30_000);
