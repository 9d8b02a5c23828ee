import { CsiError } from "../../core/errors.ts";

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
