import { safeParse } from "valibot";
import type { Driver } from "../../../lib/drivers/driver.ts";
import type { DriverModule } from "../../../lib/drivers/module.ts";
import { nfsFolders, smbFolders } from "../../../lib/drivers/synology/folder-share.ts";
import { openFolders, synology } from "../../../lib/drivers/synology/module.ts";
import { synologyNfsSchema } from "../../../lib/drivers/synology/schema.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import { localPorts } from "../../fakes/ports.ts";
import { type DsmOptions, type DsmRig, identityOf, rigOn } from "./dsm-rig.ts";
import { foldersByHand } from "./handmade.ts";

/** How the folders of a test are shared. */
export type Protocol = "nfs" | "smb";

const sections = {
  nfs: { shareHost: "nas", namePrefix: "k8s-", allowedHosts: ["10.0.0.0/24", "10.0.1.7"] },
  smb: { shareHost: "nas", namePrefix: "k8s-", users: ["csi-nodes"], groups: ["apps"] },
};

const httpOf = (dsm: Dsm, http: object = {}) => ({
  ...{ protocol: "http", host: "127.0.0.1", port: dsm.port, username: "csi", password: "secret-pw" },
  ...http,
});

function moduleOf(protocol: Protocol): DriverModule {
  const module = synology.find(({ names }) => names.includes(`synology-${protocol}`));
  if (!module) throw new Error("the driver cannot be opened");
  return module;
}

/** Opens a driver as its module does. */
export function openFolderDriver(dsm: Dsm, protocol: Protocol, options: DsmOptions = {}): Driver {
  const module = moduleOf(protocol);
  const file = { httpConnection: httpOf(dsm, options.http), [protocol]: { ...sections[protocol], ...options.folders } };
  const parsed = safeParse(module.schema, file);
  if (!parsed.success) throw new Error(JSON.stringify(parsed.issues));
  const identity = { ...identityOf(options), driver: `synology-${protocol}` };
  return module.open(identity, parsed.output as never, localPorts(localRunner({ env: {} })));
}

/** The parts of a driver, apart. */
export function folderParts(dsm: Dsm, protocol: Protocol, options: DsmOptions = {}) {
  const parsed = safeParse(synologyNfsSchema, { httpConnection: httpOf(dsm, options.http), nfs: sections.nfs });
  if (!parsed.success) throw new Error(JSON.stringify(parsed.issues));
  const { context, store } = openFolders(identityOf(options), parsed.output, "k8s-");
  const { allowedHosts: hosts } = sections.nfs;
  const share =
    protocol === "nfs"
      ? nfsFolders(context, { server: "nas", hosts, squash: "no_map" })
      : smbFolders(context, { server: "nas", users: ["csi-nodes"], groups: [] });
  return { store, share };
}

/** A double, and drivers for its shared folders. */
export const folderRig = (protocol: Protocol, options: DsmOptions = {}): Promise<DsmRig> =>
  rigOn(
    moduleOf(protocol).facts,
    options,
    (dsm, more) => openFolderDriver(dsm, protocol, more),
    dsm => {
      const shareOf = (context: Readonly<Record<string, string>>) =>
        dsm.state.shares.get(context["share"]?.split("/").at(-1) ?? "");
      return {
        foreign: foldersByHand(dsm),
        contentOf: shareOf,
        hostileSnapshots: ["@GMT+01-2025.03.23-15.17.39", "../x@GMT+01-2025.03.23-15.17.39", "pvc-1@", "pvc-1@GMT"],
        state: async () => structuredClone(dsm.state.shares),
        async unmark({ context }) {
          const share = shareOf(context);
          if (share) share.description = "made by hand";
        },
      };
    },
  );
