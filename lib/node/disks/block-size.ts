import type { Sysfs } from "./sysfs.ts";

/** The size of a block device in bytes; 0 if it has none. */
export async function bytesOf(name: string, sysfs: Sysfs): Promise<bigint> {
  const sectors = await sysfs.text("class/block", name, "size");
  return /^[0-9]+$/.test(sectors) ? BigInt(sectors) * 512n : 0n;
}
