import { createHash } from "node:crypto";
import { wantedBytes } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, jointCode } from "../core/errors.ts";
import type { Group } from "../core/proxy.ts";
import type { PlacementPolicy } from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";
import type { FreeSpace } from "./free-space.ts";
import { evaluatePlacement, type Placement } from "./placement.ts";
import type { CreateRequest } from "./routed.ts";

/** A member of a group that could take a volume. */
export interface Candidate extends Pick<Placement, "preference"> {
  readonly name: string;
  /** Bytes that a new volume may take; undefined when the driver cannot tell. */
  readonly free: bigint | undefined;
}

/** The connection as a candidate for a volume, or why it is none. Rejects when its storage cannot tell in time how much is free. */
export async function candidateOf(
  connection: Connection,
  request: CreateRequest,
  policy: PlacementPolicy,
  space: FreeSpace,
  call: Call,
): Promise<Candidate | CsiError> {
  const { name } = connection;
  const verdict = evaluatePlacement(connection, request, policy);
  if (verdict instanceof CsiError) return verdict;
  const free = await space.on(connection, request.parameters, call);
  if (free !== undefined && free < wantedBytes(request.range))
    return new CsiError("resource-exhausted", `connection "${name}": ${free} bytes are free`);
  return { name, preference: verdict.preference, free };
}

/** Candidates for a volume of this name, the best first: by preferred place, then as the group's policy says. */
export const ordered = (
  candidates: readonly Candidate[],
  policy: Group["policy"],
  volume: string,
): readonly Candidate[] => candidates.toSorted((a, b) => a.preference - b.preference || byPolicy(policy, volume, a, b));

function byPolicy(policy: Group["policy"], volume: string, a: Candidate, b: Candidate): number {
  if (policy === "ordered") return 0;
  if (policy === "most-free" && a.free !== b.free) return (b.free ?? 0n) > (a.free ?? 0n) ? 1 : -1;
  return weight(b.name, volume) > weight(a.name, volume) ? 1 : -1;
}

/** Rendezvous hashing: a member's rank for a name does not change when other members come or go. */
const weight = (member: string, volume: string): string =>
  createHash("sha256").update(`${member}\0${volume}`).digest("hex");

/** The refusal of a whole group. It is not for good where members are `away` that might take the volume once they can be asked. */
export const noMember = (group: string, refusals: readonly CsiError[], away: readonly string[]): CsiError => {
  const reasons = [
    ...refusals.map(each => each.message),
    ...away.map(name => `connection "${name}": it cannot be asked now`),
  ];
  return new CsiError(
    away.length > 0 ? "unavailable" : jointCode(refusals),
    `no member of group "${group}" can take the volume: ${reasons.join("; ")}`,
  );
};
