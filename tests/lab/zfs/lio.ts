import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rmdir, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run, waitFor } from "../run.ts";

const root = "/sys/kernel/config/target";
const gone = (error: { readonly code?: string }): void => {
  if (error.code !== "ENOENT") throw error;
};

/** The name of the storage side's target. */
export const iqn = "iqn.2025-01.lab.csimux:disks";
const group = `${root}/iscsi/${iqn}/tpgt_1`;

/** CHAP settings of a target, by the names of its files in configfs. */
export type Chap = Readonly<Partial<Record<"userid" | "password" | "userid_mutual" | "password_mutual", string>>>;

/** A zvol of 320 MiB, which `destroyZvol` removes. */
export async function makeZvol(name: string): Promise<void> {
  await run(["zfs", "create", "-s", "-V", "320M", `tank/${name}`]);
  await waitFor(name, async () => (existsSync(`/dev/zvol/tank/${name}`) ? true : undefined));
}

/** The target may hold the zvol a moment longer. */
export const destroyZvol = (name: string): Promise<true> =>
  waitFor(`the end of ${name}`, () =>
    run(["zfs", "destroy", `tank/${name}`]).then(
      () => true as const,
      () => undefined,
    ),
  );

/**
 * Creates a target with these zvols as LUNs 0, 1, … on all addresses of this machine. It writes to the kernel's configfs, because
 * targetcli takes ten seconds per command in an emulated machine.
 */
export async function makeTarget(zvols: readonly string[], chap: Chap = {}): Promise<void> {
  await mkdir(`${group}/np/0.0.0.0:3260`, { recursive: true });
  for (const [lun, name] of zvols.entries()) {
    const core = `${root}/core/iblock_${lun}/${name}`;
    await mkdir(core, { recursive: true });
    await writeFile(`${core}/control`, `udev_path=/dev/zvol/tank/${name}`);
    await writeFile(`${core}/enable`, "1");
    await writeFile(`${core}/wwn/vpd_unit_serial`, `csimux-${name}`);
    await mkdir(`${group}/lun/lun_${lun}`);
    await symlink(core, `${group}/lun/lun_${lun}/${name}`);
  }
  const wanted = Object.keys(chap).length > 0 ? "1" : "0";
  const attributes = {
    authentication: wanted,
    generate_node_acls: "1",
    demo_mode_write_protect: "0",
    cache_dynamic_acls: "1",
  };
  for (const [name, value] of Object.entries(attributes)) await writeFile(`${group}/attrib/${name}`, value);
  for (const [name, value] of Object.entries(chap)) await writeFile(`${group}/auth/${name}`, value);
  await writeFile(`${group}/enable`, "1");
}

/** Disables a target, which ends its sessions, or enables it again. */
export async function switchTarget(on: boolean): Promise<void> {
  const wanted = on ? "1" : "0";
  // The kernel refuses a value that is already set.
  if ((await readFile(`${group}/enable`, "utf8")).trim() !== wanted) await writeFile(`${group}/enable`, wanted);
}

/** Removes the target, even with active sessions. */
export async function removeTarget(): Promise<void> {
  await writeFile(`${group}/enable`, "0").catch(gone);
  for (const lun of await readdir(`${group}/lun`).catch(() => [])) {
    const folder = `${group}/lun/${lun}`;
    for (const link of await readdir(folder)) if (link.startsWith("disk")) await unlink(join(folder, link)).catch(gone);
    await rmdir(folder);
  }
  for (const folder of [`${group}/np/0.0.0.0:3260`, group, `${root}/iscsi/${iqn}`]) await rmdir(folder).catch(gone);
  for (const adapter of (await readdir(`${root}/core`)).filter(name => name.startsWith("iblock_"))) {
    for (const name of await readdir(`${root}/core/${adapter}`))
      if (name.startsWith("disk")) await rmdir(`${root}/core/${adapter}/${name}`);
    await rmdir(`${root}/core/${adapter}`);
  }
}
