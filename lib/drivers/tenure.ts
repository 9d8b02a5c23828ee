import { type Capability, defaultFilesystem } from "../core/access.ts";
import { type CapacityRange, insideRange } from "../core/bytes.ts";
import { CsiError } from "../core/errors.ts";
import { mappingIn } from "../core/mapping.ts";

type Parameters = Readonly<Record<string, string>>;

/** What a request says about the claim that its volume is for. */
export interface Tenant {
  /** As <namespace>/<name>; undefined if the provisioner does not send it. */
  readonly claim: string | undefined;
  /** The name of the volume that was asked for, which never belongs to another claim. */
  readonly holder: string;
  /** What the volume is for a pod: "block", or "mount" with its file system where nodes make one. */
  readonly shape: string;
  /** DeleteVolume gives the volume up instead of removing it. */
  readonly retain: boolean;
}

/** What a volume records about whose it is. One text, so that each change of it is one step. */
export interface Tenure extends Tenant {
  /** The `instance_id` of the connection that wrote it. */
  readonly instance: string | undefined;
  /** Set once the volume was given up: what distinguishes its storage from every other one, also from a copy with the same values. */
  readonly released?: string | undefined;
}

/** The class parameters that concern claims. */
export const adoptKey = "adopt";
/** Its only value. */
export const byClaim = "byClaim";
/** Like the key of connection files. */
export const deleteStrategyKey = "deleteStrategy";

/** Why a class cannot have these two parameters, or undefined. */
export function tenancyRefusal(parameters: Parameters): string | undefined {
  const adopt = parameters[adoptKey] ?? "";
  const strategy = parameters[deleteStrategyKey] ?? "";
  if (adopt !== "" && adopt !== byClaim)
    return `the parameter ${adoptKey} must be "${byClaim}", not "${adopt.slice(0, 40)}"`;
  if (!["", "delete", "retain"].includes(strategy))
    return `the parameter ${deleteStrategyKey} must be "delete" or "retain", not "${strategy.slice(0, 40)}"`;
  return undefined;
}

/** `isDisk`: nodes make the file systems. */
const shapeOf = (capabilities: readonly Capability[], isDisk: boolean): string => {
  const each = ({ kind, fsType }: Capability) =>
    kind === "block" || !isDisk ? kind : `${kind}:${fsType || defaultFilesystem}`;
  return [...new Set(capabilities.map(each))].sort().join("+");
};

/** The tenant of a request; undefined if nothing is to be recorded. Throws "invalid-argument" for a wrong parameter. */
export function tenantOf(
  holder: string,
  parameters: Parameters,
  capabilities: readonly Capability[],
  isDisk: boolean,
): Tenant | undefined {
  const refusal = tenancyRefusal(parameters);
  if (refusal !== undefined) throw new CsiError("invalid-argument", refusal);
  const [namespace, name] = ["namespace", "name"].map(key => parameters[`csi.storage.k8s.io/pvc/${key}`]);
  const claim = namespace && name ? `${namespace}/${name}` : undefined;
  const retain = parameters[deleteStrategyKey] === "retain";
  if (parameters[adoptKey] === byClaim && claim === undefined)
    throw new CsiError(
      "invalid-argument",
      `the class has ${adoptKey}: ${byClaim}, and the request does not name its claim; external-provisioner does with --extra-create-metadata`,
    );
  if (claim === undefined && !retain) return undefined;
  return { claim, holder, shape: shapeOf(capabilities, isDisk), retain };
}

/** The tenant of a volume that no claim asks for, such as that of a move: its class may keep it. */
export const unclaimed = (holder: string, parameters: Parameters): Tenant | undefined =>
  parameters[deleteStrategyKey] === "retain" ? { claim: undefined, holder, shape: "", retain: true } : undefined;

/** A tenure as text: the same for equal ones. */
export const tenureText = ({ claim, holder, shape, retain, instance, released }: Tenure): string =>
  JSON.stringify({ claim, holder, shape, retain, instance, released });

/** Reads such a text. One that csimux did not write belongs to no claim, and its volume is never removed. */
export function tenureIn(text: string | undefined): Tenure | undefined {
  if (text === undefined) return undefined;
  const all = mappingIn(text) ?? {};
  const field = (key: string) => (typeof all[key] === "string" ? all[key] : undefined);
  const [holder, shape] = [field("holder"), field("shape")];
  if (holder === undefined || shape === undefined || typeof all["retain"] !== "boolean")
    return { claim: undefined, holder: "", shape: "", retain: true, instance: undefined };
  const { retain } = all;
  return { claim: field("claim"), holder, shape, retain, instance: field("instance"), released: field("released") };
}

/** A volume that may be given to a claim. */
export interface Candidate {
  /** As the caller names it. */
  readonly id: string;
  readonly bytes: bigint;
  readonly tenure: Tenure;
  /** What distinguishes its storage from every other one; empty if unknown. */
  readonly identity: string;
  /** The `instance_id` of its connection now. */
  readonly instance: string | undefined;
  /** Whether its own name is the one that is asked for. */
  readonly isNamesake: boolean;
  /** What is asked for on its connection, as in Tenant. */
  readonly shape: string;
  /** Why it cannot be used where it is needed; undefined if it can. */
  readonly unreachable: string | undefined;
}

/** A request for a volume of a claim. */
export interface Wanted extends Pick<Tenant, "claim" | "holder"> {
  readonly range: CapacityRange;
  /** Whether a volume of the name that is asked for exists already, finished or not. */
  readonly exists: boolean;
}

/** "new": a volume is made, or continues to be made. "adopt": this one becomes the volume, or has become it in an earlier call. */
export type Decision<C extends Candidate> =
  | { readonly kind: "new"; readonly passed: readonly string[] }
  | { readonly kind: "adopt"; readonly volume: C }
  | { readonly kind: "refused"; readonly why: string };

/** Decides which of the finished volumes of a connection or group a claim gets. Pure. */
export function decided<C extends Candidate>(wanted: Wanted, all: readonly C[]): Decision<C> {
  const { claim, holder, exists } = wanted;
  const ofClaim = all.filter(({ tenure }) => claim !== undefined && tenure.claim === claim);
  // An earlier call of this request may have adopted one, and its answer may have been lost.
  const own = ofClaim.filter(
    each => each.tenure.released === undefined && each.tenure.holder === holder && !each.isNamesake,
  );
  const [first, second] = own;
  if (first && second)
    return { kind: "refused", why: `${listed(own)} both have been adopted by it; remove one of them` };
  const why = first && misfit(wanted, first);
  if (first && why !== undefined) return { kind: "refused", why: `it has adopted "${first.id}", which ${why}` };
  if (first) return { kind: "adopt", volume: first };
  if (exists) return { kind: "new", passed: [] };
  const judged = ofClaim.map(each => ({ each, why: notFree(each) ?? misfit(wanted, each) }));
  const fit = judged.filter(each => each.why === undefined).map(({ each }) => each);
  const [only, other] = fit;
  if (!only) return { kind: "new", passed: judged.map(({ each, why }) => `"${each.id}" ${why}`) };
  if (!other) return { kind: "adopt", volume: only };
  const remedy = "bind the right one by hand (csimux volumes adopt), or remove the others";
  return { kind: "refused", why: `its claim ${claim} has given up ${listed(fit)}; ${remedy}` };
}

const listed = (some: readonly Candidate[]): string => some.map(({ id }) => `"${id}"`).join(", ");

/** Why a volume is not free to be adopted, or undefined. */
function notFree({ tenure, identity, instance }: Candidate): string | undefined {
  if (tenure.released === undefined) return "was not given up: no PersistentVolume of it was deleted";
  if (identity === "" || tenure.released !== identity)
    return "is not the storage that was given up, but perhaps a copy of it";
  return instance !== undefined && tenure.instance === instance
    ? undefined
    : `belongs to the instance_id "${tenure.instance ?? ""}"`;
}

/** Why a volume does not satisfy a request, or undefined. */
function misfit({ range }: Wanted, { bytes, tenure, shape, unreachable }: Candidate): string | undefined {
  if (tenure.shape !== shape) return `is of the kind ${tenure.shape}, not ${shape}`;
  if (bytes > 0n && !insideRange(bytes, range)) return `has ${bytes} bytes, which is outside the range asked for`;
  return unreachable === undefined ? undefined : `cannot be used: ${unreachable}`;
}
