import { placeOf } from "../../../lib/core/place.ts";
import type { Host } from "../../host.ts";
import { UsageError, visible } from "../../terminal/terminal.ts";
import { atSite } from "./at-site.ts";
import { compared, type ListedPv, type VolumeRow } from "./compare.ts";
import type { VolumesFlags } from "./flags.ts";
import { type KeptOn, keptOn } from "./kept.ts";
import { deletionText } from "./manifests.ts";
import type { Listed, Site } from "./site.ts";
import { listingData, listingText, noPv } from "./text.ts";

/** `csimux volumes list`. Returns the exit code that the command's help documents. Throws UsageError. */
export const list = (flags: VolumesFlags, host: Host): Promise<number> =>
  atSite(flags, host, async (site, given) => {
    const { rows, listed } = await survey(site, given?.pvs);
    show(rows, listed, site, flags, host, await keptOn(site, listed, rows));
    return codeOf(rows, listed);
  });

/** `csimux volumes orphans`: volumes without a PersistentVolume. Deletes nothing. Throws UsageError. */
export const orphans = (flags: VolumesFlags, host: Host): Promise<number> =>
  atSite(flags, host, async (site, given) => {
    const pvs = given?.pvs;
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

async function survey(site: Site, pvs: readonly ListedPv[] | undefined) {
  const { listed, duplicates } = await site.list();
  return { listed, rows: compared({ listed, duplicates }, pvs, site.name, site.handles) };
}

function show(
  rows: readonly VolumeRow[],
  listed: readonly Listed[],
  { name }: Site,
  flags: VolumesFlags,
  host: Host,
  kept: readonly KeptOn[] = [],
): void {
  const asJson = flags.json || flags.output === "json";
  const data = () => `${JSON.stringify(listingData(rows, listed, name, kept), undefined, 2)}\n`;
  host.out(asJson ? data() : listingText(rows, listed, kept));
}

/** The exit code. A PersistentVolume whose connection has no file is as unknown as one whose connection does not answer. */
function codeOf(rows: readonly VolumeRow[], listed: readonly Listed[]): number {
  const isAbsent = ({ state, connection }: VolumeRow) =>
    state === "unknown" && !listed.some(({ name }) => name === connection);
  if (rows.some(isAbsent) || listed.some(each => each.problem !== undefined && !each.isUnlisted)) return 2;
  return rows.some(each => noPv(each) || each.state === "lost") ? 1 : 0;
}

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
    if (volume.tenure?.retain)
      return `# ${visible(handle)}: its class has deleteStrategy: retain, or a claim has given it up once; delete it by hand\n`;
    const about = [
      `${placeOf(volume.context) ?? id} of connection ${connection}`,
      ...(note === undefined ? [] : [note]),
    ];
    return deletionText({ driver, volume }, about.join("; "));
  });
  return `${head.join("\n")}\n${each.join("")}`;
}
