import type { Access } from "../../core/access.ts";
import type { Driver } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import { ZfsCli } from "./cli.ts";
import { InlineDriver } from "./inline.ts";
import { wordsOf } from "./open.ts";
import type { InlineConfig } from "./schema.ts";

/** Opens zfs-local-ephemeral-inline: zfs of this machine, or of the root of the node that is mounted at `chroot`. Does no I/O. */
export function openInline(identity: Identity, { zfs: section }: InlineConfig, ports: Ports, access: Access): Driver {
  const { datasetParentName: parent, properties = {}, chroot } = section;
  const words = wordsOf(section, undefined);
  const program = section.cli?.paths?.chroot ?? "chroot";
  const zfs = chroot === undefined ? words : { ...words, zfs: [program, chroot, ...words.zfs] as const };
  return new InlineDriver(identity, { parent, properties, access }, new ZfsCli(ports.local, zfs), async () => {});
}
