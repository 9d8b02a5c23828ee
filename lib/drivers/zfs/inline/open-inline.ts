import type { Access } from "../../../core/access.ts";
import type { Driver } from "../../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../../module.ts";
import { ZfsCli } from "../cli/cli.ts";
import type { InlineConfig } from "../config/schema.ts";
import { wordsOf } from "../open.ts";
import { InlineDriver } from "./inline.ts";

/** Opens zfs-local-ephemeral-inline: zfs of this machine, or of the root of the node that is mounted at `chroot`. Does no I/O. */
export function openInline(
  identity: ConnectionIdentity,
  { zfs: section }: InlineConfig,
  ports: DriverPorts,
  access: Access,
): Driver {
  const { datasetParentName: parent, properties = {}, chroot } = section;
  const words = wordsOf(section, undefined);
  const program = section.cli?.paths?.chroot ?? "chroot";
  const zfs = chroot === undefined ? words : { ...words, zfs: [program, chroot, ...words.zfs] as const };
  return new InlineDriver(identity, { parent, properties, access }, new ZfsCli(ports.local, zfs), async () => {});
}
