import { readObjects } from "../../../lib/config/cluster.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import { placeOf } from "../../../lib/core/place.ts";
import type { AdoptedVolume } from "../../../lib/drivers/driver.ts";
import type { Host } from "../../host.ts";
import { textOf, UsageError } from "../../terminal/terminal.ts";
import { compared, type ListedPv, pvFinder, pvsIn, type VolumeRow } from "./compare.ts";
import type { VolumesFlags } from "./flags.ts";
import { adoptionText, deletionText, pvName } from "./manifests.ts";
import { type Listed, openSite, type Site } from "./site.ts";
import { listingData, listingText, noPv } from "./text.ts";

/** `csimux volumes list`. Returns the exit code that the command's help documents. Throws UsageError. */
export const list = (flags: VolumesFlags, host: Host): Promise<number> =>
  atSite(flags, host, async (site, pvs) => {
    const { rows, listed } = await survey(site, pvs);
    show(rows, listed, site, flags, host);
    return codeOf(rows, listed);
  });

/** `csimux volumes orphans`: volumes without a PersistentVolume. Deletes nothing. Throws UsageError. */
export const orphans = (flags: VolumesFlags, host: Host): Promise<number> =>
  atSite(flags, host, async (site, pvs) => {
    if (!pvs)
      throw new UsageError("--pvs is missing: without the PersistentVolumes of the cluster, nothing is an orphan");
    if (flags.printDelete && pvs.length === 0)
      throw new UsageError(
        "the cluster has no PersistentVolume of a CSI driver; delete such volumes by hand, or adopt them",
      );
    const { rows, listed } = await survey(site, pvs);
    const found = rows.filter(noPv);
    if (!flags.printDelete) show(found, listed, site, flags, host);
    else host.out(deletions(found, listed, site.name));
    return codeOf(found, listed);
  });

/** `csimux volumes adopt`: prints a PersistentVolume and a claim. Changes nothing without `--mark`. Throws UsageError. */
export const adopt = (flags: VolumesFlags, host: Host, connection: string, object: string): Promise<number> =>
  atSite(flags, host, (site, pvs) =>
    site.connections.use(connection, "refuse", async opened => {
      const { driver, driverName } = opened;
      const { adoption } = driver;
      if (!adoption)
        throw new CsiError(
          "failed-precondition",
          `the driver ${driverName} cannot read its storage; write the PersistentVolume by hand`,
        );
      const look = await adoption.adopt(object, false, site.call());
      const volume = site.handles.volume(opened, look);
      const pv = pvs && pvFinder(pvs)(volume);
      if (pv)
        throw new CsiError(
          "already-exists",
          `"${object}" is used by the PersistentVolume ${pv.name} (${pv.driver}, "${pv.handle}")${pv.claim === undefined ? "" : ` of claim ${pv.claim}`}`,
        );
      const name = pvName(look.id, volume.id);
      const claim = flags.claim ?? `default/${name}`;
      if (!/^[a-z0-9-]+\/[a-z0-9.-]+$/.test(claim))
        throw new UsageError(`--claim must be <namespace>/<name>, not "${claim}"`);
      const other = otherClaim(look, claim, opened.retain);
      if (other !== undefined && !flags.mark)
        throw new CsiError(
          "failed-precondition",
          `claim ${other} may have "${object}" again (adopt: byClaim); give --mark, which ends that`,
        );
      const { marked, tenure } = flags.mark ? await adoption.adopt(object, true, site.call()) : look;
      if (tenure?.holder !== look.tenure?.holder)
        throw new CsiError("aborted", `"${object}" was given to a claim meanwhile; see whose it is`);
      const request = { driver: site.name, volume, access: opened.access, name, claim };
      host.out(adoptionText(request, marked, look.id));
      return 0;
    }),
  );

/** The claim that a class may give the volume to, now or once it is given up, although it is bound by hand to `claim`. */
function otherClaim({ tenure }: AdoptedVolume, claim: string, isRetained: boolean): string | undefined {
  if (tenure?.released !== undefined) return tenure.claim;
  return tenure?.claim !== claim && (tenure?.retain || isRetained) ? tenure?.claim : undefined;
}

async function atSite(
  flags: VolumesFlags,
  host: Host,
  work: (site: Site, pvs: readonly ListedPv[] | undefined) => Promise<number>,
): Promise<number> {
  const { output = "text" } = flags;
  if (output !== "text" && output !== "json") throw new UsageError(`--output must be text or json, not "${output}"`);
  let site: Site | undefined;
  try {
    const pvs = flags.pvs === undefined ? undefined : await pvsOf(flags.pvs, host);
    site = await openSite(flags, host);
    return await work(site, pvs);
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return error.code === "invalid-argument" ? 2 : 1;
  } finally {
    await site?.close();
  }
}

/** Throws UsageError for what is not the list of a cluster: with a part of it, volumes in use would be orphans. */
async function pvsOf(path: string, host: Host): Promise<readonly ListedPv[]> {
  const text = await textOf(path, host);
  const objects = readObjects(path, text);
  const pvs = pvsIn(objects);
  if (text.trim() === "" || (objects.length > 0 && pvs.length === 0))
    throw new UsageError(`${path} has no PersistentVolumes; give the output of kubectl get pv,pvc -A -o json`);
  return pvs;
}

async function survey(site: Site, pvs: readonly ListedPv[] | undefined) {
  const { listed, duplicates } = await site.list();
  return { listed, rows: compared({ listed, duplicates }, pvs, site.name, site.handles, site.isMapped) };
}

function show(
  rows: readonly VolumeRow[],
  listed: readonly Listed[],
  { name }: Site,
  flags: VolumesFlags,
  host: Host,
): void {
  const asJson = flags.json || flags.output === "json";
  host.out(asJson ? `${JSON.stringify(listingData(rows, listed, name), undefined, 2)}\n` : listingText(rows, listed));
}

const codeOf = (rows: readonly VolumeRow[], listed: readonly Listed[]): number => {
  if (listed.some(each => each.problem !== undefined && !each.isUnlisted)) return 2;
  return rows.some(each => noPv(each) || each.state === "lost") ? 1 : 0;
};

function deletions(rows: readonly VolumeRow[], listed: readonly Listed[], driver: string): string {
  const kept = new Set(listed.filter(({ retain }) => retain).map(({ name }) => name));
  const head = [
    `# ${rows.length} volumes of ${driver} without a PersistentVolume. Nothing has been deleted.`,
    "# WARNING: kubectl create -f with this file deletes them and their data for good. First remove every volume from it",
    "# that another cluster, another deployment or a claim in creation may use. Snapshots and volumes in use stop the",
    "# deletion of theirs, as for any claim.",
  ];
  const each = rows.map(({ volume, connection, id, handle, note }) => {
    if (!volume) return "";
    if (kept.has(connection))
      return `# ${handle}: connection ${connection} has deleteStrategy: retain; delete it by hand\n`;
    const about = [
      `${placeOf(volume.context) ?? id} of connection ${connection}`,
      ...(note === undefined ? [] : [note]),
    ];
    return deletionText({ driver, volume }, about.join("; "));
  });
  return `${head.join("\n")}\n${each.join("")}`;
}
