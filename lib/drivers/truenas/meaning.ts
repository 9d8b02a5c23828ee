import { HttpError, httpCodes } from "../../io/dial.ts";
import type { ErrorMapping } from "../failure.ts";
import { ApiError, errnos, isBusy, isDenied, isFull, LostJob } from "./api-error.ts";
import { NotTrueNas } from "./connect.ts";
import { LoginRefused } from "./rpc-transport.ts";

/** What the server says to a login, and what to do. */
const logins: Readonly<Record<string, string>> = {
  AUTH_ERR: "the API key, or user name and password, are wrong, or the key was revoked",
  EXPIRED: "the API key has expired or was revoked (TrueNAS revokes keys that reach it unencrypted): make a new one",
  DENIED: "the account may not use the API: give it a privilege with the roles that csimux needs",
  OTP_REQUIRED: "the account asks for a second factor: use an API key",
};

/** The role that a method needs, where one is missing (TrueNAS, "Privileges"). */
const roles: readonly (readonly [RegExp, string])[] = [
  [/^pool\.dataset\.delete$/, "DATASET_DELETE"],
  [/^pool\.dataset\.query$/, "DATASET_READ"],
  [/^pool\.dataset\./, "DATASET_WRITE"],
  [/^zfs\.resource\.destroy$/, "ZFS_RESOURCE_DELETE"],
  [/^zfs\.resource\.query$/, "ZFS_RESOURCE_READ"],
  [/snapshot\.(?:delete|destroy)$/, "SNAPSHOT_DELETE"],
  [/snapshot\.query$/, "SNAPSHOT_READ"],
  [/snapshot\./, "SNAPSHOT_WRITE"],
  [/^filesystem\./, "FILESYSTEM_ATTRS_WRITE"],
  [/^replication\./, "REPLICATION_TASK_WRITE"],
  [/^service\./, "SERVICE_READ"],
  [/^pool\./, "POOL_READ"],
  [/^sharing\.nfs\./, "SHARING_NFS_WRITE"],
  [/^sharing\.smb\./, "SHARING_SMB_WRITE"],
  [/^iscsi\./, "SHARING_ISCSI_WRITE"],
  [/^nvmet\./, "SHARING_NVME_TARGET_WRITE"],
];

const roleFor = (method: string): string => roles.find(([pattern]) => pattern.test(method))?.[1] ?? "FULL_ADMIN";

/** What any failure of the API means to a caller; undefined for one that is not of the API. */
export function apiErrorMapping(error: unknown): ErrorMapping | undefined {
  if (error instanceof HttpError) return { code: httpCodes[error.failure], text: error.message };
  if (error instanceof NotTrueNas) return { code: "failed-precondition", text: error.message };
  if (error instanceof LostJob) return { code: "unavailable", text: error.message };
  if (error instanceof LoginRefused) {
    const text = logins[error.answer] ?? `the login was answered with ${error.answer}`;
    return { code: "unauthenticated", text };
  }
  return error instanceof ApiError ? explainRefusal(error) : undefined;
}

function explainRefusal(error: ApiError): ErrorMapping {
  if (isDenied(error)) {
    const text = `the account lacks the role ${roleFor(error.method)} that ${error.method} needs`;
    return { code: "permission-denied", text };
  }
  if (error.errno === errnos.noMethod)
    // Methods are chosen by the version, so the system was upgraded in between; the repeat asks it anew.
    return {
      code: "unavailable",
      text: `this version of TrueNAS has no ${error.method}; if it was just upgraded, repeat`,
    };
  if (isFull(error)) return { code: "resource-exhausted", text: error.message };
  if (isBusy(error)) return { code: "aborted", text: `${error.message}; it will be tried again` };
  if (error.problems.length > 0) return { code: "failed-precondition", text: error.message };
  return { code: "internal", text: error.message };
}
