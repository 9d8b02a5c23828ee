import type { InferOutput } from "valibot";
import type { Driver } from "../driver.ts";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type ConnectionIdentity, type DriverPorts, driverModule } from "../module.ts";
import { directoryDriver } from "./driver.ts";
import type { DirectoryKind, DirectorySettings } from "./kinds.ts";
import { localHostpathSchema, lustreClientSchema, nfsClientSchema, smbClientSchema } from "./schema.ts";

type LocalSection = InferOutput<typeof localHostpathSchema>["local-hostpath"];
type SharedSection = InferOutput<typeof nfsClientSchema>["nfs"];

type Snapshots = NonNullable<LocalSection["snapshots"]>;

/** The settings of a tool; values of its environment become text. */
const toolOf = (tool: NonNullable<Snapshots["restic"] | Snapshots["kopia"]>) => ({
  flags: tool.global_flags ?? [],
  tags: tool.tags ?? [],
  env: Object.fromEntries(Object.entries(tool.env ?? {}).map(([name, value]) => [name, String(value)])),
});

function toolsOf({ restic, kopia }: Partial<Snapshots>): Pick<DirectorySettings, "restic" | "kopia"> {
  return {
    restic: restic ? { ...toolOf(restic), prune: restic.prune ?? false } : undefined,
    kopia: kopia ? { ...toolOf(kopia), token: kopia.config_token ?? undefined } : undefined,
  };
}

const settingsOf = (section: LocalSection | SharedSection): DirectorySettings => ({
  shareHost: "shareHost" in section ? section.shareHost : undefined,
  shareBasePath: section.shareBasePath,
  controllerBasePath: section.controllerBasePath,
  mode: section.dirPermissionsMode === undefined ? undefined : Number.parseInt(section.dirPermissionsMode, 8),
  user: section.dirPermissionsUser,
  group: section.dirPermissionsGroup,
  requireMount: "requireMount" in section ? section.requireMount : false,
  snapshotDriver: section.snapshots?.default_driver ?? "filecopy",
  ...toolsOf(section.snapshots ?? {}),
});

const open = (
  kind: DirectoryKind,
  identity: ConnectionIdentity,
  section: LocalSection | SharedSection,
  ports: DriverPorts,
): Driver => directoryDriver(kind, identity, settingsOf(section), ports);

/** The folders below the base folder of a share; `section` is the driver's section of the file. */
const factsIn = (section: string, system = section): Pick<DriverFacts, "parameters" | "territory"> => ({
  parameters: { volume: [], snapshot: ["driver"] },
  territory: {
    system,
    hosts: [[section, "shareHost"]],
    trees: [[section, "shareBasePath"]],
    inside: ["v", "s", ".csimux"],
  },
});

export const localHostpath = driverModule({
  names: ["local-hostpath"],
  facts: factsOf("hostpath", "local-hostpath", { local: true, ...factsIn("local-hostpath", "folders") }),
  schema: localHostpathSchema,
  open: (identity, config, ports) => open("local-hostpath", identity, config["local-hostpath"], ports),
});

export const nfsClient = driverModule({
  names: ["nfs-client"],
  facts: factsOf("nfs", "nfs-client", factsIn("nfs")),
  schema: nfsClientSchema,
  open: (identity, config, ports) => open("nfs-client", identity, config.nfs, ports),
});

export const smbClient = driverModule({
  names: ["smb-client"],
  facts: factsOf("smb", "smb-client", factsIn("smb")),
  schema: smbClientSchema,
  open: (identity, config, ports) => open("smb-client", identity, config.smb, ports),
});

export const lustreClient = driverModule({
  names: ["lustre-client"],
  facts: factsOf("lustre", "lustre-client", factsIn("lustre")),
  schema: lustreClientSchema,
  open: (identity, config, ports) => open("lustre-client", identity, config.lustre, ports),
});
