import { CsiError } from "../core/errors.ts";
import type { Mount } from "../core/mountinfo.ts";
import type { Disks } from "./disks.ts";
import type { StageRecord } from "./records.ts";
import type { Usage } from "./usage.ts";

/** Something adverse about a volume as this node sees it. */
export interface Adverse {
  /** "degraded": usable, not well. "inaccessible": from this node. */
  readonly status: "degraded" | "inaccessible";
  /** One word in CamelCase, for machines. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
}

/** What a look at a mounted volume gave. */
export interface Measured {
  /** Empty when the volume does not answer. */
  readonly usage: readonly Usage[];
  readonly adverse: Adverse | undefined;
  /** Why there is no usage. */
  readonly failure: CsiError | undefined;
}

/** Waits for the usage of a volume mounted as `mount` and judges what comes. Throws what says nothing about the volume. */
export async function measured(
  usage: Promise<readonly Usage[]>,
  mount: Mount | undefined,
  record: StageRecord | undefined,
  signal: AbortSignal,
): Promise<Measured> {
  try {
    return { usage: await usage, adverse: readOnly(mount, record), failure: undefined };
  } catch (error) {
    if (!(error instanceof CsiError) || signal.aborted) throw error;
    const adverse = inaccessible(error);
    if (!adverse) throw error;
    return { usage: [], adverse, failure: error };
  }
}

/** Whether a file system turned itself read-only: ext4 does so after an error (ext4(5), errors=remount-ro). */
export const readOnlyByItself = (mount: Mount, record: StageRecord): boolean =>
  mount.readOnly && !record.flags.includes("ro");

/** Whether a volume was a disk that the kernel has no more. */
export const hasLostDisk = async (record: StageRecord, disks: Pick<Disks, "isGone">): Promise<boolean> =>
  record.attached?.kind === "device" && (await disks.isGone(record.attached.mounted?.number ?? record.attached.number));

function readOnly(mount: Mount | undefined, record: StageRecord | undefined): Adverse | undefined {
  if (!mount || !record || !readOnlyByItself(mount, record)) return undefined;
  const message = `the file system at ${mount.at} has become read-only, mostly after an error; look into the kernel's log`;
  return { status: "degraded", reason: "ReadOnlyFileSystem", message };
}

function inaccessible({ code, message }: CsiError): Adverse | undefined {
  if (code === "deadline-exceeded") return { status: "inaccessible", reason: "NotAnswering", message };
  return code === "unavailable" ? { status: "inaccessible", reason: "Unusable", message } : undefined;
}
