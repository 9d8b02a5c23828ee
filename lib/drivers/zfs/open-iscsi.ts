import type { Driver } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { type IscsiSettings, IscsiShare, iscsiNote } from "./iscsi-share.ts";
import { cliOf, devices, storeOn } from "./open.ts";
import type { IscsiConfig } from "./schema.ts";

/** Where the kernel shows its targets (LIO) and udev the zvols. */
const usual = { configfs: "/sys/kernel/config/target", devices: "/dev/zvol" };

const texts = (values: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(values ?? {}).flatMap(([key, value]) =>
      value === undefined || value === "" ? [] : [[key, String(value)]],
    ),
  );

/** Opens zfs-generic-iscsi. Does no I/O. `places` are others in tests. */
export function openIscsi(identity: Identity, config: IscsiConfig, ports: Ports, places = usual): Driver {
  const { zfs: section, sshConnection, iscsi } = config;
  const { zfs, host, words, close } = cliOf(section, sshConnection, ports);
  const lio = iscsi.shareStrategyTargetCli;
  const settings: IscsiSettings = {
    naming: {
      basename: lio?.basename ?? "",
      nameTemplate: iscsi.nameTemplate,
      namePrefix: iscsi.namePrefix,
      nameSuffix: iscsi.nameSuffix,
    },
    portal: iscsi.targetPortal,
    portals: iscsi.targetPortals,
    interface: iscsi.interface,
    groupAttributes: texts(lio?.tpg?.attributes),
    auth: texts(lio?.tpg?.auth),
    blockAttributes: texts(lio?.block?.attributes),
    targetcli: lio?.sudoEnabled ? ["sudo", "-n", "targetcli"] : ["targetcli"],
    privileged: lio?.sudoEnabled ? ["sudo", "-n"] : words.privileged,
    ...places,
  };
  const store = storeOn(zfs, identity, section, devices(section), { protocol: "iscsi", noteKeys: [iscsiNote] }, close);
  return new StoreDriver(identity, store, new IscsiShare(host, settings));
}
