import { isMapping, type Mapping } from "../../../lib/core/mapping.ts";
import { claimFinder, placeOf } from "../../../lib/core/place.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import type { Handles } from "../../../lib/mux/handles.ts";
import type { Duplicate } from "./duplicates.ts";
import type { Listed, SiteVolume } from "./site.ts";

/** A PersistentVolume of a CSI driver. */
export interface ListedPv {
  readonly name: string;
  readonly driver: string;
  readonly handle: string;
  /** In lower case: bound, released, available, failed, pending. */
  readonly phase: string;
  /** As <namespace>/<name>. */
  readonly claim: string | undefined;
  /** Like `placeOf`. */
  readonly place: string | undefined;
}

/** What a volume is: the phase of its PersistentVolume, or one of these. "unknown": its connection could not be listed. */
export type VolumeState = "orphaned" | "lost" | "twin" | "unknown" | (string & {});

/** One line of the listing. */
export interface VolumeRow {
  readonly connection: string;
  /** The driver's id. */
  readonly id: string;
  readonly handle: string;
  readonly volume: SiteVolume | undefined;
  /** Undefined if no PersistentVolumes are given. */
  readonly state: VolumeState | undefined;
  readonly pv: ListedPv | undefined;
  /** What else a person should know. */
  readonly note: string | undefined;
}

/** The PersistentVolumes of CSI drivers among the objects of a cluster. */
export const pvsIn = (objects: readonly Mapping[]): readonly ListedPv[] =>
  objects.flatMap(object => {
    const handle = textAt(object, "spec", "csi", "volumeHandle");
    if (object["kind"] !== "PersistentVolume" || handle === undefined) return [];
    const claim = textAt(object, "spec", "claimRef", "name");
    const spec = isMapping(object["spec"]) ? object["spec"]["csi"] : undefined;
    const attributes = isMapping(spec) ? spec["volumeAttributes"] : undefined;
    return [
      {
        name: textAt(object, "metadata", "name") ?? "",
        driver: textAt(object, "spec", "csi", "driver") ?? "",
        handle,
        phase: (textAt(object, "status", "phase") ?? "unknown").toLowerCase(),
        claim: claim && `${textAt(object, "spec", "claimRef", "namespace")}/${claim}`,
        place: isMapping(attributes) ? placeOf(attributes) : undefined,
      },
    ];
  });

/** Like claimFinder, for volumes with their context. */
export function pvFinder(pvs: readonly ListedPv[]) {
  const found = claimFinder(pvs);
  return ({ id, context }: Pick<SiteVolume, "id" | "context">) => found({ id, place: placeOf(context) });
}

/** Compares the volumes of all connections with the PersistentVolumes of the cluster, the worst first. */
export function compared(
  { listed, duplicates }: { readonly listed: readonly Listed[]; readonly duplicates: readonly Duplicate[] },
  pvs: readonly ListedPv[] | undefined,
  driver: string,
  handles: Handles,
): readonly VolumeRow[] {
  const found = pvFinder(pvs ?? []);
  const volumes = listed.flatMap(({ name, volumes: own }) => own.map(volume => ({ connection: name, volume })));
  const used = new Set(
    volumes.filter(({ volume }) => found(volume)).map(each => `${each.connection}/${each.volume.own}`),
  );
  const present = volumes.map(({ connection, volume }): VolumeRow => {
    const pv = found(volume);
    const doubled = duplicates.filter(each => each.member === connection && each.id === volume.own);
    const twins = [...new Set(doubled.map(({ other }) => other))];
    const isTwin = twins.some(other => used.has(`${other}/${volume.own}`));
    const state = pvs && (pv?.phase ?? (isTwin ? "twin" : "orphaned"));
    const notes = [
      ...(twins.length === 0 ? [] : [`a volume of the same name is on ${twins.join(", ")}`]),
      ...(pv && pv.handle !== volume.id ? [`used as "${pv.handle}" of ${pv.driver}`] : []),
      ...(volume.source ? [`made from ${volume.source.id}`] : []),
    ];
    const note = notes.join("; ") || undefined;
    return { connection, id: volume.own, handle: volume.id, volume, state, pv, note };
  });
  const known = new Set(volumes.map(({ volume }) => volume.id));
  const absent = (pvs ?? []).flatMap((pv): readonly VolumeRow[] => {
    const handle = pv.driver === driver && !known.has(pv.handle) ? handles.parse(pv.handle, "volume") : undefined;
    if (!handle) return [];
    const listing = listed.find(({ name }) => name === handle.connection);
    const isKnown = listing !== undefined && listing.problem === undefined;
    const note = listing === undefined ? `there is no connection "${handle.connection}"` : undefined;
    const row = { connection: handle.connection, id: handle.id, handle: pv.handle, volume: undefined, pv, note };
    return [{ ...row, state: isKnown ? "lost" : "unknown" }];
  });
  const rank = ({ state = "" }: VolumeRow) => ["lost", "orphaned", "twin", "unknown"].indexOf(state) >>> 0;
  const order = (row: VolumeRow) => `${row.connection}/${row.id}`;
  return [...absent, ...present].sort((a, b) => rank(a) - rank(b) || (order(a) < order(b) ? -1 : 1));
}
