import { CsiError } from "../../../lib/core/errors.ts";
import type { AdoptedVolume } from "../../../lib/drivers/driver.ts";
import type { Host } from "../../host.ts";
import { UsageError } from "../../terminal/terminal.ts";
import { adoptAll, isClaim } from "./adopt-all.ts";
import { atSite, type Given } from "./at-site.ts";
import { pvFinder } from "./compare.ts";
import type { VolumesFlags } from "./flags.ts";
import { adoptionText, pvName } from "./manifests.ts";
import type { Site } from "./site.ts";

/** `csimux volumes adopt`: prints PersistentVolumes and claims. Changes nothing without `--mark`. Throws UsageError. */
export async function adopt(
  flags: VolumesFlags,
  host: Host,
  connection: string | undefined,
  object: string | undefined,
): Promise<number> {
  if (!flags.all) {
    if (connection !== undefined && object !== undefined) return adoptOne(flags, host, connection, object);
    throw new UsageError("name a connection and an object of it, or give --all");
  }
  if (connection !== undefined || flags.claim !== undefined || flags.mark)
    throw new UsageError("--all takes neither a connection nor --claim nor --mark");
  return atSite(flags, host, (site, given) => {
    if (given) return adoptAll(site, given, host);
    throw new UsageError("--pvs is missing: give what the new cluster has already, even if that is nothing");
  });
}

const adoptOne = (flags: VolumesFlags, host: Host, connection: string, object: string): Promise<number> => {
  const work = (site: Site, given: Given | undefined) =>
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
      const pv = given && pvFinder(given.pvs)(volume);
      if (pv)
        throw new CsiError(
          "already-exists",
          `"${object}" is used by the PersistentVolume ${pv.name} (${pv.driver}, "${pv.handle}")${pv.claim === undefined ? "" : ` of claim ${pv.claim}`}`,
        );
      const name = pvName(look.id, volume.id);
      const claim = flags.claim ?? `default/${name}`;
      if (!isClaim(claim)) throw new UsageError(`--claim must be <namespace>/<name>, not "${claim}"`);
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
    });
  return atSite(flags, host, work, 1);
};

/** The claim that a class may give the volume to, now or once it is given up, although it is bound by hand to `claim`. */
function otherClaim({ tenure }: AdoptedVolume, claim: string, isRetained: boolean): string | undefined {
  if (tenure?.released !== undefined) return tenure.claim;
  return tenure?.claim !== claim && (tenure?.retain || isRetained) ? tenure?.claim : undefined;
}
