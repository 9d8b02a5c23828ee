import { wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { sizeFrom } from "../sizes.ts";
import { type LunContext, until } from "./contexts.ts";
import { DsmError, errors, isAnswer } from "./dsm-error.ts";
import { markOf } from "./names.ts";
import { removable, removeLuns } from "./removal.ts";
import type { Lun, LunSnapshot } from "./san.ts";
import { snapshotOfId } from "./snapshots.ts";
import { lunFields, type TemplateSources } from "./templates.ts";

/** How long a call waits for a LUN to appear and become free, in milliseconds; sidecars wait 15 s. */
const readyMs = 8000;

type LunSource =
  | { readonly kind: "volume"; readonly lun: Lun }
  | { readonly kind: "snapshot"; readonly snapshot: LunSnapshot };

/** Makes DSM create the LUN of a volume, under the name of an unfinished one. Nothing remains after a final failure. */
export async function makeLun(
  context: LunContext,
  templates: TemplateSources,
  id: string,
  spec: VolumeSpec,
  call: Call,
): Promise<void> {
  const ask = spec.source
    ? await fromSource(context, id, spec, spec.source, call)
    : empty(context, templates, id, spec, call);
  try {
    await ask();
  } catch (error) {
    if (!(error instanceof DsmError)) throw error;
    if (isAnswer(error, errors.lunExists))
      throw context.error("aborted", `another controller is creating the LUN of volume "${id}"; retrying`);
    // DSM sometimes refuses to create a LUN and creates it anyway.
    throw await lunFailure(context, id, spec, { error, accepted: false }, call);
  }
}

/** The failure of a creation: final only if nothing of the LUN remains. `accepted`: DSM did not refuse the request. */
function lunFailure(
  context: LunContext,
  id: string,
  spec: VolumeSpec,
  failed: { readonly error: unknown; readonly accepted: boolean },
  call: Call,
): Promise<unknown> {
  const { error, accepted } = failed;
  const undo = async () => {
    // Another controller may have finished the volume meanwhile.
    const { luns, targets } = await context.look(call);
    const existing = context.named(luns).filter(each => each.id === id.toLowerCase());
    // DSM lists a LUN some time after the request, so an absent one may still appear.
    if (existing.some(({ state }) => state === "whole") || (accepted && existing.length === 0)) return false;
    await removeLuns(context, id, removable(context, id, luns, targets), targets, call);
    return true;
  };
  return afterFailure(error, undo, context, `create volume "${spec.name.slice(0, 160)}"`, call);
}

function empty(context: LunContext, templates: TemplateSources, id: string, spec: VolumeSpec, call: Call) {
  const { description, ...fields } = lunFields(templates, spec.name, spec.parameters, call);
  const marked = { ...fields, description: markOf(context.owner, undefined, String(description)) };
  const name = context.names.building(id, undefined);
  return () => context.san.createLun(marked, name, context.location, wantedBytes(spec.range), call.signal);
}

async function fromSource(context: LunContext, id: string, spec: VolumeSpec, source: Source, call: Call) {
  const origin = await originOf(context, source, call);
  sizeFrom(spec.range, origin.kind === "volume" ? origin.lun.bytes : origin.snapshot.bytes);
  const name = context.names.building(id, source);
  const description = markOf(context.owner, source, "");
  return () =>
    origin.kind === "volume"
      ? context.san.cloneLun(origin.lun.uuid, name, context.location, description, call.signal)
      : context.san.cloneSnapshot(origin.snapshot, name, description, call.signal);
}

/** The source of a new volume. Throws "not-found". */
async function originOf(context: LunContext, source: Source, call: Call): Promise<LunSource> {
  const { luns, targets } = await context.look(call);
  const missing = () =>
    context.error("not-found", `the source ${source.kind} "${source.id.slice(0, 128)}" does not exist`);
  if (source.kind === "snapshot") {
    const snapshot = await snapshotOfId(context, source.id, luns, targets, call);
    if (!snapshot) throw missing();
    return { kind: "snapshot", snapshot };
  }
  const named = context
    .named(luns)
    .find(
      each =>
        each.id === source.id.toLowerCase() && each.state === "whole" && context.maker(each, targets) !== "unknown",
    );
  if (!named) throw missing();
  return { kind: "volume", lun: named.lun };
}

/**
 * Waits for the new LUN until it exists and is free, and grows it if its source was smaller. Throws "aborted" if that takes too
 * long. Nothing remains after a final failure.
 */
export const readyLun = (context: LunContext, id: string, spec: VolumeSpec, call: Call): Promise<Lun> =>
  awaited(context, id, spec, call).catch(async error =>
    Promise.reject(await lunFailure(context, id, spec, { error, accepted: true }, call)),
  );

async function awaited(context: LunContext, id: string, spec: VolumeSpec, call: Call): Promise<Lun> {
  const name = context.names.building(id, spec.source);
  const find = async () => (await context.san.luns(call.signal)).find(each => each.name === name && !each.locked);
  const lun = await until(context, find, readyMs, call);
  if (!lun) throw context.error("aborted", `DSM is still creating the LUN of volume "${id}"; retrying`);
  const wanted = spec.range.required ?? spec.range.limit;
  if (!spec.source || wanted === undefined || wanted <= lun.bytes) return lun;
  await context.san.resizeLun(lun.uuid, wanted, call.signal);
  const grown = async () =>
    (await context.san.luns(call.signal)).find(each => each.name === name && each.bytes >= wanted);
  const larger = await until(context, grown, readyMs, call);
  if (larger) return larger;
  throw context.error("aborted", `DSM is still growing the LUN of volume "${id}"; retrying`);
}
