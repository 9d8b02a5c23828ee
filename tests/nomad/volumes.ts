import { images } from "../../scripts/nomad/place.ts";
import { api, eventually, nomad, withFile } from "./nomad.ts";

/** How a volume is used (CSI access modes under Nomad's names). */
export type Access =
  | "single-node-writer"
  | "single-node-reader-only"
  | "multi-node-multi-writer"
  | "multi-node-reader-only";

/** A volume specification. */
export interface Volume {
  readonly id: string;
  /** The name for csimux, if different from the id. */
  readonly name?: string;
  readonly plugin?: string;
  readonly connection?: string;
  readonly size?: string;
  readonly access?: readonly Access[];
  /** Further lines of the specification. */
  readonly more?: string;
}

const all: readonly Access[] = ["single-node-writer", "multi-node-multi-writer", "multi-node-reader-only"];

const capability = (access: Access): string =>
  `capability {\n  access_mode = "${access}"\n  attachment_mode = "file-system"\n}\n`;

/** The text of a volume specification. */
export const volumeText = ({
  id,
  name = id,
  plugin = "csimux",
  connection,
  size,
  access = all,
  more = "",
}: Volume): string =>
  [
    `id = "${id}"\nname = "${name}"\ntype = "csi"\nplugin_id = "${plugin}"`,
    size === undefined ? "" : `capacity_min = "${size}"`,
    ...access.map(capability),
    connection === undefined ? "" : `parameters {\n  connection = "${connection}"\n}`,
    more,
    "",
  ].join("\n");

/** The list of places of a topology request. */
const places = (kind: "required" | "preferred", key: string, values: readonly string[]): string =>
  values.length === 0
    ? ""
    : `  ${kind} {\n${values.map(value => `    topology {\n      segments {\n        "${key}" = "${value}"\n      }\n    }\n`).join("")}  }\n`;

/** The lines of a topology request. */
export const placed = (key: string, required: readonly string[], preferred: readonly string[] = []): string =>
  `topology_request {\n${places("required", key, required)}${places("preferred", key, preferred)}}`;

/** Creates a volume, or expands it. */
export const create = (volume: Volume, ...flags: readonly string[]): Promise<string> =>
  withFile(volumeText(volume), file => nomad("volume", "create", ...flags, file));

/** Registers a volume that exists. */
export const register = (volume: Volume): Promise<string> =>
  withFile(volumeText(volume), file => nomad("volume", "register", file));

/** A volume as Nomad's API shows it. */
export interface VolumeInfo {
  readonly ID: string;
  readonly ExternalID: string;
  readonly Capacity: number;
  readonly Context: Readonly<Record<string, string>> | null;
  readonly Topologies: readonly ({ readonly Segments: Readonly<Record<string, string>> } | null)[] | null;
  readonly Allocations: readonly unknown[] | null;
}

/** A volume that Nomad knows. Throws if there is none. */
export async function volumeInfo(id: string): Promise<VolumeInfo> {
  const found = await api<VolumeInfo>(`/v1/volume/csi/${encodeURIComponent(id)}`);
  if (!found) throw new Error(`Nomad has no volume ${id}`);
  return found;
}

/** The lines that register a volume of csimux again: its id and its context, as CreateVolume returned them. */
export async function registered(id: string): Promise<string> {
  const { Context, ExternalID } = await volumeInfo(id);
  const context = Object.entries(Context ?? {}).map(([name, value]) => `  ${name} = "${value}"`);
  return `external_id = "${ExternalID}"\ncontext {\n${context.join("\n")}\n}`;
}

/** The ids of all volumes in Nomad. */
export const volumeIds = async (): Promise<readonly string[]> =>
  ((await api<readonly { readonly ID: string }[]>("/v1/volumes?type=csi")) ?? []).map(({ ID }) => ID);

/** The segments from which a volume is accessible. Nomad 1.11.3 lists a null before them. */
export const segmentsOf = async (id: string) =>
  ((await volumeInfo(id)).Topologies ?? []).flatMap(topology => (topology ? [topology.Segments] : []));

/** Waits until no allocation claims the volume. */
export const unclaimed = (id: string): Promise<boolean> =>
  eventually(`no claim of ${id}`, async () => ((await volumeInfo(id)).Allocations ?? []).length === 0);

/** Deletes volumes that nothing claims any more. */
export async function removeVolumes(...ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await unclaimed(id);
    await nomad("volume", "delete", id);
  }
}

/** A snapshot as `/v1/volumes/snapshot` lists it. */
export interface Snapshot {
  readonly ID: string;
  readonly ExternalSourceVolumeID: string;
}

/** The snapshots of a plugin. */
export const snapshots = async (plugin: string): Promise<readonly Snapshot[]> =>
  (await api<{ readonly Snapshots: readonly Snapshot[] | null }>(`/v1/volumes/snapshot?plugin_id=${plugin}`))
    ?.Snapshots ?? [];

/** A job with a volume at /data. */
export interface Consumer {
  readonly id: string;
  readonly volume: string;
  /** Its client; any if absent. */
  readonly client?: string;
  readonly access?: Access;
  readonly readOnly?: boolean;
  readonly perAlloc?: boolean;
  readonly count?: number;
  /** A shell command, after which the task waits to be stopped. */
  readonly run?: string;
  readonly namespace?: string;
  /** Whether Nomad replaces an allocation that failed or whose client is lost. */
  readonly replaced?: boolean;
}

const neverReplaced = "reschedule {\n      attempts  = 0\n      unlimited = false\n    }";

const onClient = (client: string): string =>
  `constraint {\n    attribute = "\${node.unique.name}"\n    value = "${client}"\n  }`;

/** A job whose task "t" uses a volume, in a container. */
export const consumer = (settings: Consumer): string => {
  const { id, volume, client, access = "single-node-writer", run = ":", namespace = "default" } = settings;
  const script = `${run}; trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done`;
  return `job "${id}" {
  namespace = "${namespace}"
  ${client === undefined ? "" : onClient(client)}
  group "g" {
    count = ${settings.count ?? 1}
    volume "data" {
      type            = "csi"
      source          = "${volume}"
      access_mode     = "${access}"
      attachment_mode = "file-system"
      read_only       = ${settings.readOnly ?? false}
      per_alloc       = ${settings.perAlloc ?? false}
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    ${settings.replaced ? "" : neverReplaced}
    task "t" {
      driver       = "docker"
      kill_timeout = "2s"
      config {
        image        = "${images.shell}"
        force_pull   = false
        network_mode = "host"
        command      = "sh"
        args         = ["-c", ${JSON.stringify(script)}]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
`;
};
