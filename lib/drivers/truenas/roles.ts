import type { Protocol } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { ApiError } from "./api-error.ts";
import type { Api } from "./client.ts";

/** What a connection does through the API, apart from its shares. */
export interface ApiUse {
  readonly protocol: Extract<Protocol, "nfs" | "smb" | "iscsi" | "nvmeof">;
  /** Datasets and snapshots are made through the API, not over ssh. */
  readonly datasets: boolean;
  /** Volumes get an owner, a mode or an access control list. */
  readonly permissions: boolean;
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
 * The least roles that an account needs for a connection, by version (`Version.number`): read in role.py and in the decorators of
 * the methods, TrueNAS 24.10.2.4, 25.04.2.6, 25.10.6 and 26.0.0-BETA.3. A WRITE role includes its READ role, a DELETE role nothing.
 */
export function rolesFor({ protocol, datasets, permissions }: ApiUse, version: number): readonly string[] {
  return [
    "DATASET_WRITE",
    ...(datasets ? ["DATASET_DELETE", "SNAPSHOT_WRITE", "SNAPSHOT_DELETE"] : []),
    ...(datasets && version >= 2510 ? ["ZFS_RESOURCE_READ"] : []),
    ...(datasets && version >= 2600 ? ["ZFS_RESOURCE_DELETE"] : []),
    ...(datasets && permissions ? ["FILESYSTEM_ATTRS_WRITE"] : []),
    sharing[protocol],
    "SERVICE_READ",
  ];
}

/** Throws permission-denied when the account lacks roles, naming all of them. Versions that do not answer an account's roles pass. */
export async function checkRoles(api: Api, connection: string, use: ApiUse, { signal }: Call): Promise<void> {
  const { number } = await api.version(signal);
  if (number < firstWithRoles) return;
  const has = rolesOf(await api.call("auth.me", [], signal).catch(unlessRefused));
  if (has === undefined || has.has("FULL_ADMIN")) return;
  const lacking = rolesFor(use, number).filter(role => !has.has(role));
  if (lacking.length === 0) return;
  const text = `the account lacks the role${lacking.length > 1 ? "s" : ""} ${lacking.join(", ")}`;
  throw new CsiError(
    "permission-denied",
    `connection "${connection}": ${text}; add them to its privilege (TrueNAS: Credentials, Groups, Privileges)`,
  );
}

function unlessRefused(error: unknown): undefined {
  if (error instanceof ApiError) return undefined;
  throw error;
}

/** The roles in the answer of auth.me, with those that they include; undefined where it tells none. */
function rolesOf(answer: unknown): ReadonlySet<string> | undefined {
  const { privilege } = (answer ?? {}) as { readonly privilege?: unknown };
  const { roles } = (privilege ?? {}) as { readonly roles?: unknown };
  return Array.isArray(roles) ? new Set(roles.map(String)) : undefined;
}
