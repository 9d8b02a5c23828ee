import type { Protocol } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { ConnectionIdentity } from "../module.ts";
import { type Api, wrapped } from "./api.ts";
import { ApiError } from "./api-error.ts";

/** What a connection needs of a system: its version, and the roles of the account. */

/** What a connection does through the API. */
export interface ApiUse {
  readonly protocol: Extract<Protocol, "nfs" | "smb" | "iscsi" | "nvmeof">;
  /** Datasets and snapshots are managed through the API, not over ssh. */
  readonly datasets: boolean;
  /** Volumes get an owner, a mode or an access control list. */
  readonly permissions: boolean;
  /** Shares get lines of smb.conf, which only full administrators may give (do_create in plugins/smb.py of TS-24.10.2.4 to TS-26.0.0-BETA.3). */
  readonly auxiliary: boolean;
}

/**
 * The first version that a connection works with, as Version.number, and why. SCALE 21.08 is the first whose API creates datasets and clones with user properties (plugins/pool.py and zfs.py), which is
 * needed without ssh. 25.10 is the first with NVMe over fabrics (plugins/nvmet).
 */
function versionFor(
  { protocol, datasets }: ApiUse,
  driver: string,
): { readonly first: number; readonly reason: string } | undefined {
  if (protocol === "nvmeof") return { first: 2510, reason: "NVMe over fabrics needs TrueNAS 25.10 or newer" };
  if (!datasets) return undefined;
  const why = `${driver} needs TrueNAS SCALE 21.08 or newer, because older APIs cannot keep the properties of volumes`;
  return { first: 2108, reason: `${why}; use driver: ${driver.replace("-api-", "-")} with sshConnection` };
}

/** An API that refuses a system that is too old before it asks anything of it. Throws failed-precondition with the reason. */
export function withRequiredVersion(api: Api, use: ApiUse, { connection, driver }: ConnectionIdentity): Api {
  const required = versionFor(use, driver);
  if (!required) return api;
  return wrapped(api, async (request, signal) => {
    const { number, text } = await api.version(signal);
    if (number >= required.first) return request();
    const reason = `${api.where} is ${text}, and ${required.reason}`;
    throw new CsiError("failed-precondition", `connection "${connection}": ${reason}`);
  });
}

/** The first version whose auth.me answers the roles of every account, API keys included. */
const firstWithRoles = 2504;

const sharing = {
  nfs: "SHARING_NFS_WRITE",
  smb: "SHARING_SMB_WRITE",
  iscsi: "SHARING_ISCSI_WRITE",
  nvmeof: "SHARING_NVME_TARGET_WRITE",
} as const;

/**
 * The least roles that an account needs for a connection, by version (`Version.number`): role.py and the decorators of the methods,
 * TrueNAS 24.10.2.4, 25.04.2.6, 25.10.6 and 26.0.0-BETA.3. A WRITE role includes its READ role, a DELETE role nothing.
 */
export function rolesFor(use: ApiUse, version: number): readonly string[] {
  const { protocol, datasets, permissions, auxiliary } = use;
  if (auxiliary) return ["FULL_ADMIN"];
  return [
    "DATASET_WRITE",
    ...(datasets ? ["DATASET_DELETE", "SNAPSHOT_WRITE", "SNAPSHOT_DELETE"] : []),
    ...(datasets && version >= 2510 ? ["ZFS_RESOURCE_READ"] : []),
    ...(datasets && version >= 2600 ? ["ZFS_RESOURCE_DELETE"] : []),
    ...(datasets && permissions ? ["FILESYSTEM_ATTRS_WRITE"] : []),
    // To see whether a new dataset has got its access control list.
    ...(datasets && protocol === "smb" ? ["FILESYSTEM_ATTRS_READ"] : []),
    sharing[protocol],
    "SERVICE_READ",
  ];
}

/** Throws failed-precondition for a version that drops the properties of new datasets; only `system.version` tells it from a later one. */
export async function checkVersion(
  api: Api,
  connection: string,
  { datasets }: ApiUse,
  { signal }: Call,
): Promise<void> {
  if (!datasets || (await api.version(signal)).number !== 2600) return;
  const text = String(await api.call("system.version", [], signal));
  if (!/26\.0\.0-BETA/.test(text)) return;
  const reason = `${text.slice(0, 80)} does not keep the properties of new datasets: update to 26.0.0-RC.1 or newer`;
  throw new CsiError("failed-precondition", `connection "${connection}": ${reason}`);
}

/** Throws permission-denied if the account lacks roles, and names all of them. Versions that do not answer an account's roles pass. */
export async function checkRoles(api: Api, connection: string, use: ApiUse, { signal }: Call): Promise<void> {
  const { number } = await api.version(signal);
  if (number < firstWithRoles) return;
  const answer = await api.call("auth.me", [], signal).catch((error: unknown) => {
    if (!(error instanceof ApiError)) throw error;
  });
  const { privilege } = (answer ?? {}) as { readonly privilege?: { readonly roles?: unknown } | null };
  const roles: unknown = privilege?.roles;
  if (!Array.isArray(roles)) return;
  // The answer has the included roles, too.
  const has = new Set(roles.map(String));
  const lacking = has.has("FULL_ADMIN") ? [] : rolesFor(use, number).filter(role => !has.has(role));
  if (lacking.length === 0) return;
  const text = `the account lacks the role${lacking.length > 1 ? "s" : ""} ${lacking.join(", ")}`;
  throw new CsiError(
    "permission-denied",
    `connection "${connection}": ${text}; add them to its privilege (TrueNAS: Credentials, Groups, Privileges)`,
  );
}
