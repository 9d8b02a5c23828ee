import { type AccessMode, type Capability, unmet } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import type { Attached, Attacher } from "./attacher.ts";
import { type Attachers, attacherOf, protocolKey } from "./attachers.ts";
import { digest } from "./digest.ts";
import { ensureFolder } from "./entries.ts";
import { bindFlags, lackingFlags, otherFlags } from "./flags.ts";
import { isWithin, type MountTable, sameFolder } from "./mount-table.ts";
import { type Mounts, misfit } from "./mounts.ts";
import { isOwn, live, refuseForeign } from "./ownership.ts";
import { realPlace } from "./paths.ts";
import { isTarget, lastingContext, type Records, type StageRecord } from "./records.ts";
import type { StageRequest, UnstageRequest } from "./requests.ts";

const readers: ReadonlySet<AccessMode> = new Set<AccessMode>(["single-node-reader-only", "multi-node-reader-only"]);

/** The flags of a mount for this capability: what a bind mount can carry, and "ro" for a mode that only reads (CSI VolumeCapability.AccessMode, N-04). */
export const flagsOf = (capability: Capability): readonly string[] =>
  bindFlags(readers.has(capability.mode) ? [...capability.mountFlags, "ro"] : capability.mountFlags);

/** Throws "failed-precondition" for a capability that volumes of this protocol do not have (CSI NodeStageVolume). */
export function checkAccess(attacher: Attacher, capability: Capability, volumeId: string): void {
  const reason = unmet(attacher.access, capability);
  if (reason) throw new CsiError("failed-precondition", `volume "${volumeId}": ${reason}`);
}

/** What to remember of a staging. */
export function stageRecord(request: StageRequest, protocol: string, attacher: Attacher, place: string): StageRecord {
  const { volumeId, capability, context } = request;
  const { kind, mode, fsType } = capability;
  return {
    volumeId,
    stagingPath: place,
    protocol,
    context: lastingContext(context),
    kind,
    fsType: attacher.access.filesystems === "any" ? undefined : fsType || undefined,
    mode,
    flags: flagsOf(capability),
    shows: undefined,
    published: [],
  };
}

const terms = ({ stagingPath, protocol, kind, fsType, mode, flags }: StageRecord) => ({
  stagingPath,
  protocol,
  kind,
  fsType,
  mode,
  flags,
});

const isRepeated = (before: StageRecord | undefined, record: StageRecord): boolean =>
  before !== undefined && digest(terms(before)) === digest(terms(record));

const isSame = (a: StageRecord, b: StageRecord): boolean =>
  isRepeated(a, b) && digest({ ...a.shows }) === digest({ ...b.shows }) && digest(a.context) === digest(b.context);

/** The record when the volume is still published, although its staging is gone. */
const published = (record: StageRecord | undefined, table: MountTable): StageRecord | undefined =>
  record?.published.some(({ target }) => table.layers(target) > 0) ? record : undefined;

/** A volume has one staging path and, while it is staged, one capability (CSI NodeStageVolume). */
function refuseSecond(record: StageRecord, earlier: StageRecord | undefined): void {
  if (!earlier || isRepeated(earlier, record)) return;
  const { volumeId, stagingPath } = earlier;
  if (stagingPath !== record.stagingPath) {
    throw new CsiError(
      "failed-precondition",
      `volume "${volumeId}" is staged at ${stagingPath} already; unstage it there first`,
    );
  }
  throw new CsiError(
    "already-exists",
    `volume "${volumeId}" is staged at ${stagingPath} with another capability; unstage it first`,
  );
}

/** NodeStageVolume and NodeUnstageVolume. The caller holds the volume. */
export class Staging {
  readonly #attachers: Attachers;
  readonly #mounts: Mounts;
  readonly #records: Records;

  constructor(attachers: Attachers, mounts: Mounts, records: Records) {
    this.#attachers = attachers;
    this.#mounts = mounts;
    this.#records = records;
  }

  /** `stagingPath` is a checked path. The record is written before anything is done, so that a crash can be undone. */
  async stage(request: StageRequest, call: Call): Promise<void> {
    const { volumeId, capability, context } = request;
    const protocol = context[protocolKey] ?? "";
    const attacher = attacherOf(this.#attachers, protocol, volumeId);
    checkAccess(attacher, capability, volumeId);
    const table = await this.#mounts.table();
    const place = await realPlace(request.stagingPath, table, call.signal);
    const before = await this.#records.find(volumeId, call.log);
    const record = { ...stageRecord(request, protocol, attacher, place), published: before?.published ?? [] };
    const staged = await live(before, table, this.#records);
    refuseSecond(record, staged);
    const left = otherFlags(capability.mountFlags);
    if (left.length > 0)
      call.log.debug("mount flags that a bind mount cannot carry were left out", { flags: left.length });
    try {
      if (attacher.detach) await this.#save(record, before);
      const attached = await attacher.attach({ volumeId, context, capability }, table, call);
      await this.#show(attached, record, before, table, call);
    } catch (error) {
      if (isFinal(error)) await this.#forget(record, staged ?? published(before, table), attacher, call);
      throw error;
    }
  }

  /** `stagingPath` is a checked path. Success when nothing is staged there. */
  async unstage({ volumeId, stagingPath }: UnstageRequest, call: Call): Promise<void> {
    const table = await this.#mounts.table();
    const place = await realPlace(stagingPath, table, call.signal);
    const record = await this.#records.find(volumeId, call.log);
    if (record?.stagingPath !== place && isTarget(record, place) && table.layers(place) > 0) {
      throw new CsiError("invalid-argument", `${place} is a target path of volume "${volumeId}", not its staging path`);
    }
    const own = await isOwn(volumeId, record, place, table, this.#records);
    if (!own) return refuseForeign(volumeId, place, table);
    const recorded = record?.stagingPath === place ? record : undefined;
    const used = recorded?.published.find(({ target }) => table.layers(target) > 0);
    if (used)
      throw new CsiError(
        "failed-precondition",
        `volume "${volumeId}" is still published at ${used.target}; unpublish it first`,
      );
    await this.#mounts.unmount(place, table, call.signal);
    if (!recorded) return;
    await attacherOf(this.#attachers, recorded.protocol, volumeId).detach?.(recorded.context, call);
    await this.#records.remove(volumeId);
  }

  /** Makes the attached volume visible at its staging path, where something may be mounted already. */
  async #show(
    attached: Attached,
    claim: StageRecord,
    before: StageRecord | undefined,
    table: MountTable,
    call: Call,
  ): Promise<void> {
    const { stagingPath: at, flags, volumeId } = claim;
    const source = attached.path;
    if (isWithin(source, at) || isWithin(at, source)) {
      throw new CsiError(
        "failed-precondition",
        `volume "${volumeId}": ${source} and the staging path ${at} lie within each other`,
      );
    }
    const record = { ...claim, shows: table.identity(source) };
    const top = table.top(at);
    if (!top) {
      await this.#save(record, before);
      await ensureFolder(at, call.signal);
      return await this.#mounts.bind({ source, at, flags }, table, call.signal);
    }
    const wrong = misfit(top, record.shows, flags);
    const unprotected = sameFolder(top, record.shows) && lackingFlags(flags, top.options).length > 0;
    if (wrong && !(unprotected && isRepeated(before, record))) {
      throw new CsiError(
        "already-exists",
        `${at} is mounted but not as volume "${volumeId}" needs it: ${wrong}; unmount it first`,
      );
    }
    await this.#save(record, before);
    if (unprotected) await this.#mounts.protect({ source, at, flags }, table, call.signal);
  }

  async #save(record: StageRecord, before: StageRecord | undefined): Promise<void> {
    if (!before || !isSame(record, before)) await this.#records.save(record);
  }

  /** After a failed call that mounted nothing: what was staged or published before stays so. */
  async #forget(record: StageRecord, kept: StageRecord | undefined, attacher: Attacher, call: Call): Promise<void> {
    if (kept) return await this.#save(kept, record);
    await attacher.detach?.(record.context, call);
    await this.#records.remove(record.volumeId);
  }
}
