import { CsiError } from "../../core/errors.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Entry, Property } from "./zfs.ts";

/** The user properties that democratic-csi writes, and what they hold. They stay as they are, so that both can serve a pool. */
export const property = {
  /** "true" on volumes and snapshots. */
  managed: "democratic-csi:managed_resource",
  /** "true" once the creation is complete. */
  success: "democratic-csi:provision_success",
  /** The name that the caller gave to a volume. */
  volumeName: "democratic-csi:csi_volume_name",
  /** JSON: what leads a node to the volume. */
  context: "democratic-csi:csi_share_volume_context",
  /** "volume" or "snapshot", and its id. */
  sourceKind: "democratic-csi:csi_volume_content_source_type",
  sourceId: "democratic-csi:csi_volume_content_source_id",
  driver: "democratic-csi:volume_context_provisioner_driver",
  instance: "democratic-csi:volume_context_provisioner_instance_id",
  snapshotName: "democratic-csi:csi_snapshot_name",
  snapshotVolume: "democratic-csi:csi_snapshot_source_volume_id",
  /** Ours: the size in bytes of the volume when a snapshot was taken. */
  bytes: "csimux:bytes",
  /** Ours: the id of the group that a snapshot was taken with. */
  group: "csimux:group",
  /** Ours: the id of the volume that a tombstone was. */
  tombstone: "csimux:tombstone",
} as const;

/** The name of a note that a share keeps, as a property: democratic-csi's names have this form. */
export const noteProperty = (key: string): string => `democratic-csi:${key}`;

/** The longest value of a user property in bytes (zfsprops(7), "User Properties"). */
const longestValue = 8191;

/** Throws "invalid-argument" for a value that could not be read back: it has a tab, a line break or a NUL, or is too long. */
export function refuseUnfit(name: string, value: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
  if (!/[\x00-\x1f\x7f]/.test(value) && Buffer.byteLength(value) <= longestValue) return;
  throw new CsiError(
    "invalid-argument",
    `the property ${name} must be at most ${longestValue} bytes long and hold no control characters`,
  );
}

/** Values of the context that democratic-csi writes as numbers. */
const numbers = new Set(["lun", "nsid"]);

/** What leads to a volume, as democratic-csi writes it. */
export const contextText = (context: Readonly<Record<string, string>>): string =>
  JSON.stringify(context, (key, value: unknown) => (numbers.has(key) ? Number(value) : value));

/** The same read back, all values as text; undefined for a text that is not such a context. */
export function parseContext(text: string | undefined): Readonly<Record<string, string>> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, String(each)]));
  } catch {
    return undefined;
  }
}

// Who made a dataset stands on it: the driver and the instance_id of the connection, as democratic-csi writes them too. A dataset that
// names neither is anybody's who has its parent in a file, for democratic-csi has not always written them.

/** What a connection marks its volumes with. */
export interface Marks {
  readonly driver: string;
  readonly instanceId: string | undefined;
  /** The id of the volume that has a name. */
  readonly idOf: (name: string) => string;
}

/** What has to be read of a dataset or snapshot to know whose it is. */
export const markProperties = [property.driver, property.instance] as const;

/** The properties with which a connection marks what it makes. */
export const markValues = ({
  driver,
  instanceId,
}: Pick<ConnectionIdentity, "driver" | "instanceId">): Readonly<Record<string, string>> => ({
  [property.driver]: driver,
  ...(instanceId !== undefined && { [property.instance]: instanceId }),
});

/** The drivers that understand each other's volumes: those of TrueNAS, by both names of the product, over ssh and over its API. */
export const familyOf = (driver: string): string => driver.replace(/^(?:free|true)nas-(?:api-)?/, "truenas-");

/** A mark: of a dataset its own, of a snapshot also that of its dataset, which it inherits. */
function markOf({ name, properties }: Entry, key: string): Property | undefined {
  const found = properties.get(key);
  return found && (found.own || name.includes("@")) ? found : undefined;
}

/** Whose a dataset or snapshot is, in words, when it is another connection's. */
export function otherOwner(entry: Entry, { driver, instanceId }: Marks): string | undefined {
  const [madeBy, instance] = markProperties.map(key => markOf(entry, key)?.value);
  if (madeBy !== undefined && familyOf(madeBy) !== familyOf(driver)) return `the driver ${madeBy}`;
  if (instance !== undefined && instance !== instanceId)
    return `the instance_id "${instance}"${instanceId === undefined ? ", and this connection has none" : ""}`;
  return undefined;
}

/** Whether something that was made for another one, by its mark, was received here under this id (`zfs send -p`): a copy of it. */
const isCopy = (mark: Property | undefined, id: string, idOf: Marks["idOf"]): boolean =>
  mark?.received === true && mark.value !== id && idOf(mark.value) !== id;

/** Why a dataset is not this volume of the connection, in words; undefined when it is, finished or not. */
export function whyNotVolume(id: string, entry: Entry, marks: Marks): string | undefined {
  const { properties } = entry;
  const managed = properties.get(property.managed);
  if (!managed?.own || managed.value !== "true")
    return `bears no mark of csimux (${property.managed} is not "true" on it)`;
  const stranger = otherOwner(entry, marks);
  if (stranger !== undefined) return `is of ${stranger}`;
  const name = properties.get(property.volumeName);
  return isCopy(name, id, marks.idOf) ? `is a received copy of the volume "${name?.value}"` : undefined;
}

/** Whose the snapshot of this id is, in words, when it is another connection's or was received with a copy of another volume. */
export function whoseSnapshot(id: string, entry: Entry, marks: Marks): string | undefined {
  const volume = entry.properties.get(property.snapshotVolume);
  const [own = ""] = id.split(/[@/]/);
  return otherOwner(entry, marks) ?? (isCopy(volume, own, marks.idOf) ? `a copy of "${volume?.value}"` : undefined);
}
