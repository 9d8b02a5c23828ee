import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { TargetName } from "./names.ts";

/** A target or subsystem with one device. */
export interface ExportedTarget {
  /** IQN or NQN. */
  readonly qualifiedName: string;
  /** The part of the qualified name behind its basename; LIO's backstore has this name, too. */
  readonly backstore: string;
  /** The zvol. */
  readonly dataset: string;
  /** Path of the zvol. */
  readonly device: string;
  /** Tells this zvol from every other one, also from a later one of the same name; empty when unknown. */
  readonly guid: string;
  /** The names that democratic-csi gives the target: it makes that before it notes them. Only of a volume that is not finished. */
  readonly unnoted?: TargetName | undefined;
  /** Whether the name is that of the zvol from which this one was sent: that may have a target on this host, which it lacks at the moment. */
  readonly isReceived?: boolean;
}

/** Properties that a zvol gets before its target is made, in the same script. */
export type Note = Readonly<Record<string, string>>;

/** Makes and removes the targets of a host. */
export interface TargetExporter {
  /**
   * Makes a target, or the parts that it lacks, and saves it for a restart of the host. `finished`: it was complete before, so that a
   * complete one needs nothing. Throws "failed-precondition" for a name that another device has, "unavailable" when the target does not
   * become complete, and "changed" for a zvol that another controller has removed, or removed and made again. `note`: properties that the
   * zvol gets before anything else happens. Removes an unnoted target of the zvol, as `remove` does, where the kernel serves it.
   */
  make(target: ExportedTarget, finished: boolean, call: Call, note?: Note): Promise<void>;
  /**
   * Removes a target with its device; success when there is none, or only another device under its name. Throws as `make`,
   * "failed-precondition" while a node has a session, with nothing changed, and "aborted" when it is still there.
   */
  remove(target: ExportedTarget, call: Call): Promise<void>;
  /** Throws "failed-precondition" while a node has a session. Changes nothing. Absent: the kernel does not tell. */
  unused?(target: ExportedTarget, call: Call): Promise<void>;
  /** What nodes would miss of each target, by qualified name, in one round trip; complete ones are left out. Absent where that takes more. */
  lacking?(targets: readonly ExportedTarget[], call: Call): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Makes the target show a device of at least `bytes` bytes. Absent where it does so by itself. */
  grow?(target: ExportedTarget, bytes: bigint, call: Call): Promise<void>;
}

/** Names of targets are the whole host's: a target that shows another device belongs to someone else. */
export const foreignDevice = ({ backstore, qualifiedName, device }: ExportedTarget, foreign: string): CsiError =>
  new CsiError(
    "failed-precondition",
    `"${backstore}" (${qualifiedName}) exports another device, ${foreign}, not ${device}; see namePrefix and nameSuffix`,
  );

/** Neither its device nor a name that only this volume can have proves the target to be the volume's. */
export const unproved = ({ qualifiedName, device }: ExportedTarget): CsiError =>
  new CsiError(
    "failed-precondition",
    `the host has a target ${qualifiedName} that does not lead to ${device}: csimux did not finish or did not make it; remove it on the host if it is not needed`,
  );

/** The target did not become complete. `why`: what the host said, if anything. */
export const incomplete = ({ qualifiedName }: ExportedTarget, parts: readonly string[], why: string): CsiError =>
  new CsiError(
    "unavailable",
    `the target ${qualifiedName} lacks: ${parts.join(", ")}; ${why.slice(0, 300) || "see the targets of the host"}`,
  );

/** The device did not become visible. */
export const absentDevice = ({ device }: ExportedTarget): CsiError =>
  new CsiError("unavailable", `the device ${device} did not appear within 10 s`);
