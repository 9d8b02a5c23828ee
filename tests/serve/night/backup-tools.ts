import { pause } from "../../waiting.ts";
import { mebibytes, status, untilDone, type World } from "../world.ts";

// What backup tools make of API objects, as the calls that the sidecars and kubelet then make. The order of the calls is that of:
//
// VolSync 0.16.0 and main of July 2026 (5ca54dab): internal/controller/volumehandler/volumehandler.go (EnsurePVCFromSrc: a VolumeSnapshot
// and a claim of it, or a claim with the claim as its source) and internal/controller/mover/restic/mover.go (cleanupTypes: claim, snapshot
// and job are deleted one after another without waiting, so that the snapshot goes while kubelet has the claim mounted; the claim's name
// is the same every night).
// Velero 1.18.1: pkg/exposer/csi_snapshot.go (Expose: a second VolumeSnapshotContent with the handle of the first, which is deleted with the
// policy Retain; a claim and a pod. CleanUp: pod, claim, at most a minute of waiting for it, and the snapshot).
// Kasten: its sources are not public. assumed: a snapshot, exported from a claim of it, that stays until a later round retires it.
//
// external-snapshotter 8.6.0, pkg/sidecar-controller/snapshot_controller.go: CreateSnapshot is repeated until it is ready; for a content
// that names a handle, ListSnapshots with its id answers (checkandUpdateContentStatusOperation). external-provisioner 6.3.0: CreateVolume
// and DeleteVolume are repeated after any error that does not say that nothing was changed. No driver on ZFS has ControllerPublishVolume.

export type Tool = "volsync-snapshot" | "volsync-clone" | "velero" | "kasten";
export const tools: readonly Tool[] = ["volsync-snapshot", "volsync-clone", "velero", "kasten"];

/** One claim of a connection that is backed up. */
export interface Source {
  readonly connection: string;
  /** The name of its volume. */
  readonly name: string;
  readonly tool: Tool;
}

/** A volume as CreateVolume answers it. */
interface Made {
  readonly volumeId: string;
  readonly volumeContext: { readonly [key: string]: string };
}

/** Repeats a call as a sidecar does. */
type Done = <T>(call: () => Promise<T>) => Promise<T>;

/** Where the calls go. */
export interface Site {
  readonly world: World;
  /** How long one call of a controller may take, in milliseconds. */
  readonly callMs: number;
  /** A pod has mounted a copy of a claim's volume, and has read all of it; the answer ends it, as kubelet does. */
  pod(volume: Made, source: Source, done: Done): Promise<() => Promise<void>>;
}

/** The callers of a csimux that may be killed at any time. */
export class Callers {
  readonly #site: Site;
  /** The snapshots that Kasten keeps, by the volume. */
  readonly #kept = new Map<string, string>();
  /** How many calls were answered. */
  answers = 0;

  constructor(site: Site) {
    this.#site = site;
  }

  /** Repeats a call as a sidecar does. The client that a restart has closed throws an error without a code. */
  readonly #done = async <T>(call: () => Promise<T>): Promise<T> => {
    const asUnavailable = (error: unknown): never => {
      throw Object.assign(new Error(String(error)), { code: (error as { code?: number }).code ?? status.unavailable });
    };
    const answer = await untilDone(() => call().catch(asUnavailable), 12 * this.#site.callMs);
    this.answers++;
    return answer;
  };

  /** Makes a volume for a claim; `of`: its content source. */
  async volume(
    connection: string,
    name: string,
    claim: string,
    of?: { snapshotId: string } | { volumeId: string },
  ): Promise<Made> {
    const [namespace = "", own = ""] = claim.split("/");
    const more = {
      capacityRange: mebibytes(64),
      parameters: { connection, "csi.storage.k8s.io/pvc/namespace": namespace, "csi.storage.k8s.io/pvc/name": own },
      ...(of && {
        volumeContentSource: {
          type: "snapshotId" in of ? { case: "snapshot" as const, value: of } : { case: "volume" as const, value: of },
        },
      }),
    };
    const { volume } = await this.#done(() => this.#site.world.create(name, connection, more, this.#site.callMs));
    if (!volume) throw new Error("no volume");
    return volume;
  }

  async #snapshot(source: Source, name: string): Promise<string> {
    const request = { name, sourceVolumeId: idOf(source) };
    for (;;) {
      const { snapshot } = await this.#done(() =>
        this.#site.world.controller("createSnapshot", request, this.#site.callMs),
      );
      if (snapshot?.readyToUse) return snapshot.snapshotId;
      await pause(20);
    }
  }

  /** What csi-snapshotter asks for a content that names a handle. */
  async #isReady(snapshotId: string): Promise<void> {
    const { entries } = await this.#done(() =>
      this.#site.world.controller("listSnapshots", { snapshotId }, this.#site.callMs),
    );
    if (!entries[0]?.snapshot?.readyToUse) throw new Error(`${snapshotId} is not listed`);
  }

  /** Repeats it also while the volume is in use: a target sees the end of a session a moment after the node. */
  remove(volumeId: string): Promise<object> {
    const later = (error: { code?: number }): never => {
      throw error.code === status.failedPrecondition ? Object.assign(error, { code: status.aborted }) : error;
    };
    return this.#done(() => this.#site.world.controller("deleteVolume", { volumeId }, this.#site.callMs).catch(later));
  }

  forget(snapshotId: string): Promise<object> {
    return this.#done(() => this.#site.world.controller("deleteSnapshot", { snapshotId }, this.#site.callMs));
  }

  pod(volume: Made, source: Source): Promise<() => Promise<void>> {
    return this.#site.pod(volume, source, this.#done);
  }

  /** One backup of a night: snapshot, a claim of it, a pod that reads, and all of it gone. */
  async backup(source: Source, round: number): Promise<void> {
    const { connection, name, tool } = source;
    const uid = `${name}-${round}`;
    if (tool === "volsync-clone") {
      const claim = await this.volume(connection, `pvc-${uid}`, `shop/volsync-${name}-src`, { volumeId: idOf(source) });
      const end = await this.pod(claim, source);
      await end();
      await this.remove(claim.volumeId);
      return;
    }
    const snapshotId = await this.#snapshot(source, `snapshot-${uid}`);
    if (tool !== "volsync-snapshot") await this.#isReady(snapshotId);
    const of = tool === "volsync-snapshot" ? `shop/volsync-${name}-src` : `${tool}/${uid}`;
    const claim = await this.volume(connection, `pvc-${uid}`, of, { snapshotId });
    const end = await this.pod(claim, source);
    // Velero waits a minute for its claim; then it is as with VolSync.
    if (tool === "volsync-snapshot" || (tool === "velero" && round % 2 === 1)) await this.forget(snapshotId);
    await end();
    await this.remove(claim.volumeId);
    if (tool === "velero" && round % 2 === 0) await this.forget(snapshotId);
    if (tool === "kasten") await this.#retire(name, snapshotId);
  }

  /** Keeps the newest snapshot of a volume, or none. */
  async #retire(name: string, snapshotId?: string): Promise<void> {
    const before = this.#kept.get(name);
    if (snapshotId === undefined) this.#kept.delete(name);
    else this.#kept.set(name, snapshotId);
    if (before !== undefined) await this.forget(before);
  }

  /** Restores a claim into another namespace, while its snapshot is deleted under it. */
  async restore(source: Source, round: number): Promise<void> {
    const snapshotId = await this.#snapshot(source, `snapshot-restore-${source.name}-${round}`);
    const name = `pvc-restored-${source.name}-${round}`;
    const claim = await this.volume(source.connection, name, `shop-restored/${source.name}`, { snapshotId });
    await this.forget(snapshotId);
    const end = await this.pod(claim, source);
    await end();
    await this.remove(claim.volumeId);
  }

  /** A claim is deleted while its backup runs, as with a namespace; the rest is deleted in an order that `round` chooses. */
  async deletedMeanwhile(connection: string, round: number): Promise<void> {
    const source: Source = { connection, name: `pvc-gone-${connection}-${round}`, tool: "velero" };
    await this.volume(connection, source.name, `shop/${source.name}`);
    const snapshotId = await this.#snapshot(source, `snapshot-${source.name}`);
    const claim = await this.volume(connection, `pvc-of-${source.name}`, `velero/${source.name}`, { snapshotId });
    await this.remove(idOf(source));
    const rest = [() => this.remove(claim.volumeId), () => this.forget(snapshotId)];
    for (const each of round % 2 === 0 ? rest : rest.reverse()) await each();
  }

  /** Deletes what Kasten still keeps. */
  async retireAll(): Promise<void> {
    await Promise.all([...this.#kept.keys()].map(name => this.#retire(name)));
  }
}

const idOf = ({ connection, name }: Source): string => `v:${connection}/${name}`;
