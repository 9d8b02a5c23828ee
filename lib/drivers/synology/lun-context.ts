import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import type { Source } from "../driver.ts";
import type { ErrorMapping, FailureContext } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { StoredVolume } from "../store.ts";
import { explainDsm } from "./dsm-error.ts";
import { type LunName, type LunNames, parseMark } from "./names.ts";
import type { Lun, LunSnapshot, San, SanTarget } from "./san.ts";

/** A LUN that is a volume, or is becoming one. */
export interface LunVolume extends StoredVolume {
  readonly lun: Lun;
}

/** A LUN whose name is one that volumes have. */
export interface NamedLun extends LunName {
  readonly lun: Lun;
}

/** Who made a LUN: this connection, democratic-csi, somebody else. */
export type Maker = "this connection" | "democratic-csi" | "somebody else";

/** Who takes snapshots for democratic-csi. */
const original = "democratic-csi";

/** Whose volumes are this connection's: its instance's, and its own from the time before it had an `instance_id`. */
export const ownersOf = ({ instanceId, connection }: ConnectionIdentity): readonly [string, ...string[]] =>
  instanceId === undefined ? [connection] : [instanceId, connection];

/** What is known of one connection's LUNs: how they are called, whose they are. */
export class LunContext implements FailureContext {
  readonly connection: string;
  /** What is written on new volumes. */
  readonly owner: string;
  readonly #owners: readonly string[];
  readonly san: San;
  readonly names: LunNames;
  /** The volume of DSM, such as /volume1. */
  readonly location: string;
  readonly #maxIdBytes: number;

  constructor(identity: ConnectionIdentity, san: San, names: LunNames, location: string) {
    this.#maxIdBytes = identity.maxIdBytes;
    this.connection = identity.connection;
    this.#owners = ownersOf(identity);
    [this.owner] = ownersOf(identity);
    this.san = san;
    this.names = names;
    this.location = location;
  }

  explain(error: unknown): ErrorMapping | undefined {
    return explainDsm(error);
  }

  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The LUNs and targets of the system, as they are now. */
  async look(call: Call): Promise<{ readonly luns: readonly Lun[]; readonly targets: readonly SanTarget[] }> {
    const [luns, targets] = await Promise.all([this.san.luns(call.signal), this.san.targets(call.signal)]);
    return { luns, targets };
  }

  /** The LUNs among these that are called like volumes of this connection. */
  named(luns: readonly Lun[]): readonly NamedLun[] {
    return luns.flatMap(lun => {
      const parts = this.names.parse(lun.name);
      return parts ? [{ ...parts, lun }] : [];
    });
  }

  /** The target of a volume's LUN: the one that leads to it, else the one that only this LUN can have. */
  targetOf(id: string, lun: string, targets: readonly SanTarget[]): SanTarget | undefined {
    const named = targets.filter(({ iqn }) => this.names.isTarget(id, iqn));
    const own = this.names.taggedIqn(id, lun).toLowerCase();
    return (
      named.find(({ mapped }) => mapped.some(each => each.lun === lun)) ??
      named.find(({ iqn }) => iqn.toLowerCase() === own)
    );
  }

  /**
   * Who made a LUN. democratic-csi marks nothing: a LUN without a mark is its work when the target of the same name leads to
   * it; any other may be anybody's.
   */
  maker({ lun, tag, id }: NamedLun, targets: readonly SanTarget[]): Maker {
    if (tag) return this.names.isOwn(tag) ? "this connection" : "somebody else";
    const mark = parseMark(lun.description);
    if (mark) return this.#owners.includes(mark.owner) ? "this connection" : "somebody else";
    const target = this.targetOf(id, lun.uuid, targets);
    return target?.mapped.some(each => each.lun === lun.uuid) ? "democratic-csi" : "somebody else";
  }

  /** The volume that a LUN is; `id` as the caller spells it. */
  asset(named: NamedLun, id: string, targets: readonly SanTarget[]): LunVolume {
    const { lun, state, tag } = named;
    const target = this.targetOf(id, lun.uuid, targets);
    const mapped = target?.mapped.find(each => each.lun === lun.uuid);
    const source = parseMark(lun.description)?.source;
    return {
      id,
      lun,
      name: undefined,
      bytes: lun.bytes,
      source: source && tag?.source === this.names.sourceTag(source) ? source : undefined,
      notes: target && mapped ? { iqn: target.iqn, lun: mapped.index } : {},
      finished: state === "whole",
    };
  }

  /** The id of a snapshot, as democratic-csi has it; where the connection's name leaves no room, with the LUN's number. */
  snapshotId(lun: Lun, { uuid }: LunSnapshot): string {
    const id = `/lun/${lun.uuid}/${uuid}`;
    return id.length <= this.#maxIdBytes ? id : `/lun/${lun.number}/${uuid}`;
  }

  /** Whether CSI took a snapshot; others, such as DSM's own schedule, are a part of their LUN. */
  isCsi({ takenBy }: LunSnapshot): boolean {
    return takenBy.startsWith("csimux:") || takenBy === original;
  }

  /** The snapshots of a LUN, with a request of its own where its listing did not bring them. */
  async snapshots(lun: Lun, call: Call): Promise<readonly LunSnapshot[]> {
    return lun.snapshots ?? this.san.snapshots(lun.uuid, call.signal);
  }
}

/** A source that equals no other: what a volume was made from that was made from something else. */
export const unknownSource: Source = { kind: "volume", id: "" };
