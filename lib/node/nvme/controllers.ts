import type { Sysfs } from "../disks/sysfs.ts";
import type { Transport } from "./subsystem.ts";

/** A connection of this node to a subsystem, as the kernel shows it. */
export interface Controller {
  /** The kernel's name: "nvme1". */
  readonly name: string;
  readonly type: string;
  readonly address: string;
  readonly service: string;
  readonly isLive: boolean;
}

/** All connections to a subsystem. */
export async function controllersOf(nqn: string, sysfs: Sysfs): Promise<readonly Controller[]> {
  const names = await sysfs.names("class/nvme");
  const found = await Promise.all(
    names.map(async name =>
      (await sysfs.text("class/nvme", name, "subsysnqn")) === nqn ? read(name, sysfs) : undefined,
    ),
  );
  return found.filter(controller => controller !== undefined);
}

/** Reads a controller; its address has the form "traddr=10.0.0.1,trsvcid=4420,src_addr=…". */
async function read(name: string, sysfs: Sysfs): Promise<Controller> {
  const parts = (await sysfs.text("class/nvme", name, "address")).split(/[, ]/);
  const value = (key: string) => parts.find(part => part.startsWith(`${key}=`))?.slice(key.length + 1) ?? "";
  return {
    name,
    type: await sysfs.text("class/nvme", name, "transport"),
    address: value("traddr").toLowerCase(),
    service: value("trsvcid").replace(/^none$/, ""),
    isLive: (await sysfs.text("class/nvme", name, "state")) === "live",
  };
}

/** Whether a connection uses one of these transports. */
export const goesBy = (controller: Controller, transports: readonly Transport[]): boolean =>
  transports.some(
    ({ type, address, service }) =>
      controller.type === type && controller.address === address && controller.service === service,
  );

const diskForm = /^nvme[0-9]+n[0-9]+$/;

/**
 * The disks of a subsystem with their namespace ids: with native multipath one for all paths, which belongs to the
 * subsystem; otherwise one per path, which belongs to its controller.
 */
export async function disksOf(
  nqn: string,
  sysfs: Sysfs,
): Promise<readonly { readonly name: string; readonly nsid: string }[]> {
  const folders: string[] = (await controllersOf(nqn, sysfs)).map(({ name }) => `class/nvme/${name}`);
  for (const subsystem of await sysfs.names("class/nvme-subsystem")) {
    const folder = `class/nvme-subsystem/${subsystem}`;
    if ((await sysfs.text(folder, "subsysnqn")) === nqn) folders.push(folder);
  }
  const names = new Set<string>();
  for (const folder of folders) for (const name of await sysfs.names(folder)) if (diskForm.test(name)) names.add(name);
  return await Promise.all(
    [...names].sort().map(async name => ({ name, nsid: await sysfs.text("class/block", name, "nsid") })),
  );
}
