import { CsiError } from "../../core/errors.ts";
import { isMapping } from "../../core/mapping.ts";
import type { ProtectedSnapshot } from "../copying.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { ForeignSource } from "../volume.ts";
import { isDiscarded } from "./names.ts";
import type { Entry, Property } from "./zfs.ts";

/** The user properties of volumes and snapshots. democratic-csi writes those without "csimux", so that both can serve a pool. */
export const property = {
  /** "true" on volumes and snapshots. */
  managed: "democratic-csi:managed_resource",
  /** "true" once the creation is complete. */
  success: "democratic-csi:provision_success",
  /** The name that the caller gave to a volume. */
  volumeName: "democratic-csi:csi_volume_name",
  /** JSON: the volume context. */
  context: "democratic-csi:csi_share_volume_context",
  /** "volume" or "snapshot", and its id. */
  sourceKind: "democratic-csi:csi_volume_content_source_type",
  sourceId: "democratic-csi:csi_volume_content_source_id",
  driver: "democratic-csi:volume_context_provisioner_driver",
  instance: "democratic-csi:volume_context_provisioner_instance_id",
  snapshotName: "democratic-csi:csi_snapshot_name",
  snapshotVolume: "democratic-csi:csi_snapshot_source_volume_id",
  /** The size in bytes of the volume when a snapshot was taken. */
  bytes: "csimux:bytes",
  /** The id of the group that a snapshot was taken with. */
  group: "csimux:group",
  /** The id of the volume that a tombstone was. */
  tombstone: "csimux:tombstone",
  /** JSON: the source on another connection that a volume's content came from. */
  copyOf: "csimux:copy-of",
  /** The record of a copy, in base64url. */
  copy: "csimux:copy",
  /** "true" on the record of a cancelled copy. */
  cancelled: "csimux:cancelled",
  /** The id of the volume that a target becomes. */
  copyTarget: "csimux:landing",
  /** JSON: whose the volume is (Tenure). */
  tenure: "csimux:tenure",
  /** "true" on a volume that was given up once: it is never destroyed. */
  retained: "csimux:retained",
  /** The guid of the snapshot that a target was proved to hold. */
  proof: "csimux:proof",
} as const;

/** The property of a snapshot that is protected for the copy of this key: `protectedText`. */
export const protectedProperty = (key: string): string => `csimux:copy-${key}`;

/** What is protected: for which target (a CSI volume id), and since when (seconds since 1970). */
export const protectedText = ({ target, since }: ProtectedSnapshot): string =>
  `${since}.${Buffer.from(target).toString("base64url")}`;

/** Reads such a text; undefined for other text. */
export function protectedIn(text: string | undefined): ProtectedSnapshot | undefined {
  const [, since, target] = /^(\d{1,12})\.([A-Za-z0-9_-]+)$/.exec(text ?? "") ?? [];
  if (since === undefined || target === undefined) return undefined;
  return { target: Buffer.from(target, "base64url").toString(), since: Number(since) };
}

/** The property that holds a note of a share, as democratic-csi names it. */
export const noteProperty = (key: string): string => `democratic-csi:${key}`;

/** The value of a property, inherited or not. */
export const shownValue = (entry: Entry | undefined, name: string): string | undefined =>
  entry?.properties.get(name)?.value;

/** The value set on the entry itself: snapshots and children inherit the user properties of a dataset. */
export function ownValue(entry: Entry | undefined, name: string): string | undefined {
  const found = entry?.properties.get(name);
  return found?.own ? found.value : undefined;
}

/** Whether a dataset is encrypted; undefined if the storage does not show it. */
export function isEncrypted(entry: Entry | undefined): boolean | undefined {
  const value = shownValue(entry, "encryption");
  return value === undefined ? undefined : value !== "off";
}

/** The id of the deleted volume that a tombstone was, or that a snapshot is of, which inherits it. */
export const tombstoneId = (entry: Entry): string | undefined => shownValue(entry, property.tombstone);

/** A size in bytes; 0 for text that is not a size. */
export const bytesOf = (text: string | undefined): bigint => (text && /^\d+$/.test(text) ? BigInt(text) : 0n);

/** The longest value of a user property in bytes (zfsprops(7), "User Properties"). */
const longestValue = 8191;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are refused
const controls = /[\x00-\x1f\x7f]/;

/** Throws "invalid-argument" for a value that could not be read back: with a tab, a line break or a NUL, or too long. */
export function refuseUnfit(values: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(values))
    if (controls.test(value) || Buffer.byteLength(value) > longestValue)
      throw new CsiError(
        "invalid-argument",
        `the property ${name} must be at most ${longestValue} bytes long and hold no control characters`,
      );
}

/** Values of the context that democratic-csi writes as numbers. */
const numbers = new Set(["lun", "nsid"]);

/** The volume context as democratic-csi writes it. */
export const contextText = (context: Readonly<Record<string, string>>): string =>
  JSON.stringify(context, (key, value: unknown) => (numbers.has(key) ? Number(value) : value));

/** Reads such a context, all values as text; undefined for other text. */
export function parseContext(text: string | undefined): Readonly<Record<string, string>> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isMapping(value)) return undefined;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, String(each)]));
  } catch {
    return undefined;
  }
}

/** The source on another connection, as a property. */
export const copyOfText = ({ kind, handle }: ForeignSource): string => JSON.stringify({ kind, handle });

/** Reads such a property. A text that it cannot read is a source that no request names. */
export function copyOfIn(text: string | undefined): ForeignSource | undefined {
  if (text === undefined) return undefined;
  const { kind, handle } = parseContext(text) ?? {};
  return { kind: kind === "snapshot" ? "snapshot" : "volume", handle: handle ?? "" };
}

/** Whether a dataset is a finished copy of this source. */
export function isFinishedCopy(entry: Entry, { kind, handle }: ForeignSource): boolean {
  const of = copyOfIn(ownValue(entry, property.copyOf));
  return of?.kind === kind && of.handle === handle && ownValue(entry, property.success) === "true";
}

// A dataset names its maker: the driver and the instance_id of the connection, as democratic-csi writes them. One that names neither
// belongs to every connection with its parent, because democratic-csi has not always written them.

/** What a connection marks its volumes with. */
export interface Marks {
  readonly driver: string;
  readonly instanceId: string | undefined;
  /** The id of the volume of a name. */
  readonly idOf: (name: string) => string;
}

/** The properties that tell whose a dataset or snapshot is. */
export const markProperties = [property.driver, property.instance] as const;

/** The marks of a connection as properties. */
export const markValues = ({
  driver,
  instanceId,
}: Pick<ConnectionIdentity, "driver" | "instanceId">): Readonly<Record<string, string>> => ({
  [property.driver]: driver,
  ...(instanceId !== undefined && { [property.instance]: instanceId }),
});

/** Drivers that understand each other's volumes: those of TrueNAS, by both names of the product, over ssh and over its API. */
export const familyOf = (driver: string): string => driver.replace(/^(?:free|true)nas-(?:api-)?/, "truenas-");

/** A mark: on a dataset its own, on a snapshot also the one that it inherits from its dataset. */
function markOf({ name, properties }: Entry, key: string): string | undefined {
  const found = properties.get(key);
  return found && (found.own || name.includes("@")) ? found.value : undefined;
}

/** The other connection that a dataset or snapshot belongs to, in words; undefined when it is not another one's. */
export function otherOwner(entry: Entry, { driver, instanceId }: Marks): string | undefined {
  const [madeBy, instance] = markProperties.map(key => markOf(entry, key));
  if (madeBy !== undefined && familyOf(madeBy) !== familyOf(driver)) return `the driver ${madeBy}`;
  if (instance !== undefined && instance !== instanceId)
    return `the instance_id "${instance}"${instanceId === undefined ? ", and this connection has none" : ""}`;
  return undefined;
}

/** Whether this id received something that its mark assigns to another id (`zfs send -p`): a copy. */
const isCopy = (mark: Property | undefined, id: string, idOf: Marks["idOf"]): boolean =>
  mark?.received === true && mark.value !== id && idOf(mark.value) !== id;

/** Why a dataset is not this volume of the connection, in words; undefined when it is, finished or not. */
export function whyNotVolume(id: string, entry: Entry, marks: Marks): string | undefined {
  if (ownValue(entry, property.managed) !== "true")
    return `has no mark of csimux (${property.managed} is not "true" on it)`;
  const owner = otherOwner(entry, marks);
  if (owner !== undefined) return `belongs to ${owner}`;
  const name = entry.properties.get(property.volumeName);
  return isCopy(name, id, marks.idOf) ? `is a received copy of the volume "${name?.value}"` : undefined;
}

/** Why a dataset without the marks of a volume must not get them, in words; undefined when it may. */
export function whyNotMarked(id: string, entry: Entry, marks: Marks): string | undefined {
  // Inside of a volume it would be deleted with it.
  if (shownValue(entry, property.managed) === "true") return whyNotVolume(id, entry, marks) ?? "is a volume already";
  if (ownValue(entry, property.tombstone) !== undefined) return "is a deleted volume";
  const owner = otherOwner(entry, marks);
  return owner === undefined ? undefined : `belongs to ${owner}`;
}

/** Whether an entry is a CSI snapshot. A deleted one that its clones keep is not. */
export const isSnapshot = (entry: Entry | undefined): entry is Entry =>
  entry !== undefined &&
  ownValue(entry, property.snapshotName) !== undefined &&
  ownValue(entry, property.managed) === "true" &&
  shownValue(entry, "defer_destroy") !== "on" &&
  !isDiscarded(entry.name);

/** The other owner of the snapshot of this id, or the other volume that it was received with, in words. */
export function whoseSnapshot(id: string, entry: Entry, marks: Marks): string | undefined {
  const volume = entry.properties.get(property.snapshotVolume);
  const [own = ""] = id.split(/[@/]/);
  return otherOwner(entry, marks) ?? (isCopy(volume, own, marks.idOf) ? `a copy of "${volume?.value}"` : undefined);
}
