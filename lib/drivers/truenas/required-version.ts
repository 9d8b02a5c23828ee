import type { Protocol } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Api } from "./client.ts";

/** What a driver needs of a system, and what a person can do about an older one. */
interface Requirement {
  /** As Version.number. */
  readonly first: number;
  readonly reason: string;
}

/**
 * The first version that a driver works with. SCALE 21.08 is the first whose API makes datasets and clones with user properties
 * (plugins/pool.py and zfs.py); over ssh it needs none. 25.10 is the first with NVMe over fabrics (plugins/nvmet).
 */
export function requirementOf(driver: string, protocol: Protocol, ssh: boolean): Requirement | undefined {
  if (protocol === "nvmeof") return { first: 2510, reason: "NVMe over fabrics needs TrueNAS 25.10 or newer" };
  if (ssh) return undefined;
  const other = `use driver: ${driver.replace("-api-", "-")} with sshConnection`;
  const reason = `${driver} needs TrueNAS SCALE 21.08 or newer, because older APIs cannot keep the properties of volumes; ${other}`;
  return { first: 2108, reason };
}

/** An API that refuses an older system before it asks anything of it. Throws failed-precondition with the reason. */
export function withRequirement(
  api: Api,
  requirement: Requirement | undefined,
  { connection }: ConnectionIdentity,
): Api {
  if (!requirement) return api;
  const proved = async (signal: AbortSignal) => {
    const version = await api.version(signal);
    if (version.number >= requirement.first) return version;
    throw new CsiError(
      "failed-precondition",
      `connection "${connection}": ${api.where} is ${version.text}, and ${requirement.reason}`,
    );
  };
  return {
    where: api.where,
    version: proved,
    call: (method, params, signal) => proved(signal).then(() => api.call(method, params, signal)),
    job: (method, params, signal) => proved(signal).then(() => api.job(method, params, signal)),
  };
}
