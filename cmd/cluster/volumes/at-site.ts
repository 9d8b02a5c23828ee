import { readObjects } from "../../../lib/config/cluster.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import type { Mapping } from "../../../lib/core/mapping.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import type { Host } from "../../host.ts";
import { textOf, UsageError } from "../../terminal/terminal.ts";
import { type ListedPv, pvsIn } from "./compare.ts";
import type { VolumesFlags } from "./flags.ts";
import { openSite, type Site } from "./site.ts";

/** What `--pvs` says about the cluster. */
export interface Given {
  readonly pvs: readonly ListedPv[];
  /** The claims, as <namespace>/<name>. */
  readonly claims: ReadonlySet<string>;
}

/**
 * Opens the connections for a command. Returns its exit code, or that of a failure, which it says: `refused`, by default 2, because nothing was
 * listed. Throws UsageError.
 */
export async function atSite(
  flags: VolumesFlags,
  host: Host,
  work: (site: Site, given: Given | undefined) => Promise<number>,
  refused = 2,
): Promise<number> {
  const { output = "text" } = flags;
  if (output !== "text" && output !== "json") throw new UsageError(`--output must be text or json, not "${output}"`);
  let site: Site | undefined;
  try {
    const given = flags.pvs === undefined ? undefined : await givenBy(flags.pvs, flags, host);
    site = await openSite(flags, host);
    return await work(site, given);
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return error.code === "invalid-argument" ? 2 : refused;
  } finally {
    await site?.close();
  }
}

/**
 * Throws UsageError for what is not the list of a cluster: with a part of it, volumes in use would be orphans. With `all`, claims stand for
 * their volumes.
 */
async function givenBy(path: string, { all }: VolumesFlags, host: Host): Promise<Given> {
  const text = await textOf(path, host);
  const objects = readObjects(path, text);
  const pvs = pvsIn(objects);
  const claims = objects.filter(({ kind }) => kind === "PersistentVolumeClaim");
  const isPart = objects.length > 0 && pvs.length === 0 && !(all && claims.length > 0);
  if (text.trim() === "" || isPart)
    throw new UsageError(`${path} has no PersistentVolumes; give the output of kubectl get pv,pvc -A -o json`);
  const nameOf = (claim: Mapping) => `${textAt(claim, "metadata", "namespace")}/${textAt(claim, "metadata", "name")}`;
  return { pvs, claims: new Set(claims.map(nameOf)) };
}
