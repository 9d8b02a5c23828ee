import { median } from "../bench/load.ts";
import type { Figure } from "../bench/table.ts";
import type { Ssh } from "../lab/ssh.ts";
import { type Cost, costOf, percentile, together } from "./cost.ts";
import type { Operation } from "./operations.ts";
import type { Shell } from "./shells.ts";
import type { Subject } from "./subject.ts";

/** The three who do the same on one storage host. */
export interface Contestants {
  readonly subject: Subject;
  readonly floor: Shell;
  readonly reference: Shell;
  readonly ssh: Ssh;
}

/** How much slower than the floor, and how much of the reference, an operation may be. */
const bounds = { ofFloor: 1.5, ofReference: 1 / 3 } as const;

/**
 * Measures one operation in three ways, so many times each, and in turns: so what else this machine does meets all of them, and so
 * does the number of targets, all of which targetcli saves with each change. What an operation needs of earlier ones is there under
 * the same names.
 */
export async function compare(operation: Operation, all: Contestants, times: number): Promise<readonly Figure[]> {
  const { subject, floor, reference, ssh } = all;
  const ways = {
    csimux: (name: string) => operation.csimux(subject, name),
    floor: (name: string) => operation.floor(floor, name),
    reference: (name: string) => operation.reference(reference, name),
  };
  const costs: Record<keyof typeof ways, Cost[]> = { csimux: [], floor: [], reference: [] };
  let trips = 0;
  for (let round = 0; round < times; round++)
    for (const way of ["floor", "csimux", "reference"] as const) {
      const before = await subject.roundTrips();
      const name = `${way === "csimux" ? "own" : way}-${round}`;
      costs[way].push(await costOf(ssh, [() => ways[way](name)]));
      if (way === "csimux") trips += (await subject.roundTrips()) - before;
    }
  const [own, least, original] = [together(costs.csimux), together(costs.floor), together(costs.reference)];
  return figures(operation, trips / own.times.length, own, least, original);
}

function figures(
  { title, inTwo }: Operation,
  trips: number,
  own: Cost,
  floor: Cost,
  original: Cost,
): readonly Figure[] {
  const target = inTwo ? { target: 2 } : {};
  const [ofFloor, ofReference] = [floor, original].map(other => median(own.times) / median(other.times));
  const timed = (what: string, cost: Cost): readonly Figure[] => [
    { what: `  ${what}: p50`, value: percentile(cost, 0.5), unit: "ms" },
    { what: `  ${what}: p99 of ${cost.times.length}`, value: percentile(cost, 0.99), unit: "ms" },
    { what: `  ${what}: CPU of the host`, value: cost.cpuMs, unit: "ms" },
    { what: `  ${what}: processes on the host`, value: cost.processes, unit: "" },
  ];
  return [
    { what: `${title}: round trips`, value: trips, unit: "", ...target },
    ...timed("csimux", own),
    ...timed("floor", floor),
    ...timed("democratic-csi", original),
    { what: "  csimux / floor", value: ofFloor ?? Number.NaN, unit: "", target: bounds.ofFloor },
    { what: "  csimux / democratic-csi", value: ofReference ?? Number.NaN, unit: "", target: bounds.ofReference },
  ];
}
