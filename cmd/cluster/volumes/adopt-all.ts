import { CsiError } from "../../../lib/core/errors.ts";
import { groupBy } from "../../../lib/core/group-by.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import type { Host } from "../../host.ts";
import type { Given } from "./at-site.ts";
import { pvFinder } from "./compare.ts";
import type { Duplicate } from "./duplicates.ts";
import { adoptionsText, type PvRequest, pvName } from "./manifests.ts";
import type { Listed, Site, SiteVolume } from "./site.ts";

/** How many volumes are asked about at once. */
const atOnce = 8;

/** Whether a text names a claim: <namespace>/<name>. */
export const isClaim = (text: string): boolean => /^[a-z0-9-]+\/[a-z0-9.-]+$/.test(text);

/** A volume without a PersistentVolume. */
interface Free {
  readonly connection: string;
  readonly volume: SiteVolume;
  /** Whether another member of its group has a volume of its name. */
  readonly isDouble: boolean;
}

/** The claim that a volume is for, or what a person has to decide about it. */
type Verdict = { readonly claim: string } | { readonly why: string };

/**
 * Prints PersistentVolumes for the volumes of a cluster that is gone, each for the claim that it records, and names those that a person has to
 * decide about. Returns the exit code.
 */
export async function adoptAll(site: Site, given: Given, host: Host): Promise<number> {
  const { listed, duplicates } = await site.list();
  const silent = listed.filter(({ problem, isUnlisted }) => problem !== undefined && !isUnlisted);
  if (silent.length > 0) {
    const which = silent.map(({ name, problem }) => `${name} (${problem})`).join(", ");
    host.err(
      `csimux: nothing is printed, because a claim may have a newer volume on what cannot be listed: ${which}; leave it out of the main file to do without its volumes\n`,
    );
    return 2;
  }
  const free = freeOf(listed, duplicates, given);
  const found = await mapLimit(verdicts(free, given), atOnce, ([each, verdict]) => request(site, each, verdict));
  const requests = named(
    found.filter(each => "volume" in each),
    given,
  );
  const left = [
    ...found.flatMap(each => ("left" in each ? [each.left] : [])),
    ...listed.flatMap(({ name, problem }) => (problem === undefined ? [] : [`connection ${name}: ${problem}`])),
  ];
  host.out(adoptionsText(site.name, requests, left));
  return left.length > 0 ? 1 : 0;
}

function freeOf(listed: readonly Listed[], duplicates: readonly Duplicate[], { pvs }: Given): readonly Free[] {
  const pvOf = pvFinder(pvs);
  return listed.flatMap(({ name, volumes }) =>
    volumes
      .filter(volume => !pvOf(volume))
      .map(volume => {
        const isDouble = duplicates.some(({ member, id }) => member === name && id === volume.own);
        return { connection: name, volume, isDouble };
      }),
  );
}

/** What is to become of each volume, as far as the listing tells. Pure. */
function verdicts(free: readonly Free[], given: Given): readonly (readonly [Free, Verdict])[] {
  const bound = new Map(given.pvs.flatMap(({ claim, name }) => (claim === undefined ? [] : [[claim, name] as const])));
  const ofClaim = groupBy(
    free.filter(({ volume }) => volume.tenure?.released === undefined),
    ({ volume }) => volume.tenure?.claim ?? "",
  );
  return free.map(each => {
    const { tenure, context } = each.volume;
    const { claim = "", released, instance } = tenure ?? {};
    const byHand = `csimux volumes adopt ${each.connection} ${each.volume.own}`;
    const verdict = (): Verdict => {
      if (!isClaim(claim)) return { why: `it records no claim; ${byHand} --claim <namespace>/<name>` };
      if (instance !== context["provisioner_driver_instance_id"])
        return {
          why: `it was made for instance_id "${instance ?? ""}", perhaps by another cluster, for claim ${claim}`,
        };
      if (released !== undefined)
        return {
          why: `claim ${claim} gave it up; a class with adopt: byClaim gives it back, or ${byHand} --claim ${claim} --mark`,
        };
      const others = (ofClaim.get(claim) ?? []).filter(other => other !== each).map(({ volume }) => volume.id);
      if (others.length > 0)
        return { why: `claim ${claim} had ${others.join(", ")}, too; choose: ${byHand} --claim ${claim}` };
      if (each.isDouble)
        return { why: `another member of its group has a volume of its name; compare: ${byHand} --claim ${claim}` };
      const pv = bound.get(claim);
      if (pv !== undefined) return { why: `its claim ${claim} has the PersistentVolume ${pv} in this cluster` };
      if (given.claims.has(claim))
        return { why: `its claim ${claim} exists in this cluster already; delete that, so that it gets no new volume` };
      return { claim };
    };
    return [each, verdict()] as const;
  });
}

type Unnamed = Omit<PvRequest, "name"> & { readonly own: string };

/** The requests with names that no other one, and nothing in the cluster, has: volumes of two connections may have the same id. */
function named(requests: readonly Unnamed[], { pvs }: Given): readonly PvRequest[] {
  const taken = new Set(pvs.map(({ name }) => name));
  return requests.map(({ own, ...request }) => {
    const short = pvName(own, request.volume.id);
    const name = taken.has(short) ? pvName("", request.volume.id) : short;
    taken.add(name);
    return { ...request, name };
  });
}

/** The request for a PersistentVolume of a volume that no node uses; otherwise a line about it. */
async function request(
  site: Site,
  { connection, volume }: Free,
  verdict: Verdict,
): Promise<Unnamed | { readonly left: string }> {
  if ("why" in verdict) return { left: `${volume.id}: ${verdict.why}` };
  const { claim } = verdict;
  try {
    return await site.connections.use(connection, "refuse", async ({ driver, access }) => {
      await driver.retention?.claims?.unused(volume.own, site.call());
      return { driver: site.name, volume, access, claim, own: volume.own };
    });
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    return { left: `${volume.id}: for claim ${claim}, but ${error.message}` };
  }
}
