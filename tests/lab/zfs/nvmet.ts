import { mkdir, readdir, rmdir, symlink, unlink, writeFile } from "node:fs/promises";

const root = "/sys/kernel/config/nvmet";

/** The name of the storage side's target. */
export const nqn = "nqn.2025-01.lab.csimux:disks";
const subsystem = `${root}/subsystems/${nqn}`;

/** Ports of this machine's NVMe target, from this number on. */
const firstPort = 70;

const gone = (error: { readonly code?: string }): void => {
  if (error.code !== "ENOENT") throw error;
};

const write = async (folder: string, texts: Readonly<Record<string, string>>): Promise<void> => {
  for (const [name, text] of Object.entries(texts)) await writeFile(`${folder}/${name}`, text);
};

/** Makes a subsystem whose namespaces 1, 2, … are these zvols, on TCP at these addresses. */
export async function makeSubsystem(zvols: readonly string[], addresses: readonly string[]): Promise<void> {
  await mkdir(subsystem);
  await write(subsystem, { attr_allow_any_host: "1" });
  for (const [index, name] of zvols.entries()) {
    const folder = `${subsystem}/namespaces/${index + 1}`;
    await mkdir(folder);
    await write(folder, { device_path: `/dev/zvol/tank/${name}`, enable: "1" });
  }
  for (const [index, address] of addresses.entries()) {
    const port = `${root}/ports/${firstPort + index}`;
    await mkdir(port);
    await write(port, { addr_trtype: "tcp", addr_adrfam: "ipv4", addr_traddr: address, addr_trsvcid: "4420" });
    await symlink(subsystem, `${port}/subsystems/${nqn}`);
  }
}

/** Has the subsystem see that the zvol of a namespace has another size. */
export const resized = (nsid: number): Promise<void> =>
  writeFile(`${subsystem}/namespaces/${nsid}/revalidate_size`, "1");

/** Disables a namespace for all hosts, or enables it again. */
export const switchNamespace = (nsid: number, on: boolean): Promise<void> =>
  writeFile(`${subsystem}/namespaces/${nsid}/enable`, on ? "1" : "0");

/** What makes the subsystem reachable at its address of this index: a link, which may be removed and made again. */
export const subsystemLink = (index: number): { readonly link: string; readonly to: string } => ({
  link: `${root}/ports/${firstPort + index}/subsystems/${nqn}`,
  to: subsystem,
});

/** Removes the subsystem, even with connected hosts. */
export async function removeSubsystem(): Promise<void> {
  const ports = (await readdir(`${root}/ports`)).filter(name => Number(name) >= firstPort);
  for (const port of ports) {
    await unlink(`${root}/ports/${port}/subsystems/${nqn}`).catch(gone);
    await rmdir(`${root}/ports/${port}`);
  }
  for (const name of await readdir(`${subsystem}/namespaces`).catch(() => [])) {
    await rmdir(`${subsystem}/namespaces/${name}`);
  }
  await rmdir(subsystem).catch(gone);
}
