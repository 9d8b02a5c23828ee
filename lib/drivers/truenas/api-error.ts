import { type Code, CsiError } from "../../core/errors.ts";
import { isMapping } from "../../core/mapping.ts";
import { HttpError, httpCodes } from "../../io/dial.ts";
import type { ErrorMapping } from "../failure.ts";

/** What a TrueNAS answers instead of a result, over either protocol, and what that means to a caller. */

/** One problem of a request: the field, the server's message about it, errno(3). */
export interface Problem {
  readonly attribute: string | undefined;
  readonly message: string;
  readonly errno: number;
}

/** errno(3) of Linux, and TrueNAS' own numbers for an unknown method and for a caller who is not logged in. */
export const errnos = {
  missing: 2,
  denied: 13,
  fault: 14,
  busy: 16,
  exists: 17,
  invalid: 22,
  full: 28,
  notEmpty: 39,
  quota: 122,
  noMethod: 201,
  notLoggedIn: 207,
} as const;

/** A method that the server refused, or that failed there. It is unknown whether it changed anything. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly method: string;
  /** 0 if the server gave none. */
  readonly errno: number;
  readonly problems: readonly Problem[];
  constructor(method: string, errno: number, message: string, problems: readonly Problem[] = []) {
    super(`${method}: ${message}`);
    this.method = method;
    this.errno = errno;
    this.problems = problems;
  }

  /** The same error with all its texts changed. */
  rewritten(change: (text: string) => string): ApiError {
    const problems = this.problems.map(({ attribute, message, errno }) => {
      return { attribute: attribute === undefined ? undefined : change(attribute), message: change(message), errno };
    });
    return new ApiError(this.method, this.errno, this.message.slice(`${this.method}: `.length), problems);
  }
}

/** A job that was started and that the server no longer knows: it was restarted or could not be reached. */
export class LostJob extends Error {
  override readonly name = "LostJob";
  constructor(method: string) {
    super(`${method}: the server has forgotten this job; it was probably restarted`);
  }
}

/** The server answered, but not as a TrueNAS that csimux supports. */
export class NotTrueNas extends Error {
  override readonly name = "NotTrueNas";
}

/** A login that was refused, with the server's word for the reason: AUTH_ERR, EXPIRED, DENIED, OTP_REQUIRED. */
export class LoginRefused extends Error {
  override readonly name = "LoginRefused";
  readonly answer: string;
  constructor(answer: string) {
    super(`the login was answered with ${answer}`);
    this.answer = answer;
  }
}

/** An object in an answer of the API, by the names of its fields. */
export type ApiRow = Readonly<Record<string, unknown>>;

/** The rows that a query answers. Throws NotTrueNas for anything else: an empty list would mean that the object does not exist. */
export function listOf<R extends ApiRow = ApiRow>(method: string, answer: unknown): readonly R[] {
  if (Array.isArray(answer) && answer.every(isMapping)) return answer as readonly ApiRow[] as readonly R[];
  throw new NotTrueNas(`TrueNAS has answered ${method} with something other than a list`);
}

/** Triples of attribute, message, errno, as refusals and failed jobs carry them. */
export const problemsIn = (extra: unknown): readonly Problem[] =>
  Array.isArray(extra)
    ? extra.filter(Array.isArray).map(([attribute, message, errno]) => ({
        attribute: typeof attribute === "string" ? attribute : undefined,
        message: String(message),
        errno: Number(errno),
      }))
    : [];

const hasErrno = (error: unknown, ...numbers: readonly number[]): error is ApiError =>
  error instanceof ApiError &&
  (numbers.includes(error.errno) || error.problems.some(({ errno }) => numbers.includes(errno)));

/** Whether the object that the request names does not exist. */
export const isMissing = (error: unknown): boolean => hasErrno(error, errnos.missing);

/** Whether the object is in use, held, or has clones. */
export const isBusy = (error: unknown): boolean => hasErrno(error, errnos.busy);

/** Whether the server refused the request; what exists there says why. */
export const isRefused = (error: unknown): error is ApiError => error instanceof ApiError;

/** Whether the caller is not logged in, or lacks a role; also where a connection has named itself in the error. */
export const isDenied = (error: unknown): boolean =>
  hasErrno(error instanceof CsiError ? error.cause : error, errnos.denied, errnos.notLoggedIn);

/** Whether space is lacking, or the server's rule of 80 % for volumes is broken. */
export const isFull = (error: unknown): boolean =>
  hasErrno(error, errnos.full, errnos.quota) ||
  (error instanceof ApiError &&
    error.problems.some(each => each.attribute?.endsWith(".volsize") && /80%/.test(each.message)));

/** What to do about a refused login. */
const loginTexts: Readonly<Record<string, string>> = {
  AUTH_ERR: "the API key, or user name and password, are wrong, or the key was revoked",
  EXPIRED: "the API key has expired or was revoked (TrueNAS revokes keys that reach it unencrypted): create a new one",
  DENIED: "the account may not use the API: give it a privilege with the roles that csimux needs",
  OTP_REQUIRED: "the account asks for a second factor: use an API key",
};

/** The role that a method needs (TrueNAS, "Privileges"). */
const roles: readonly (readonly [RegExp, string])[] = [
  [/^pool\.dataset\.delete$/, "DATASET_DELETE"],
  [/^pool\.dataset\.query$/, "DATASET_READ"],
  [/^pool\.dataset\./, "DATASET_WRITE"],
  [/^zfs\.resource\.destroy$/, "ZFS_RESOURCE_DELETE"],
  [/^zfs\.resource\.query$/, "ZFS_RESOURCE_READ"],
  [/snapshot\.(?:delete|destroy)$/, "SNAPSHOT_DELETE"],
  [/snapshot\.query$/, "SNAPSHOT_READ"],
  [/snapshot\./, "SNAPSHOT_WRITE"],
  [/^filesystem\.getacl$/, "FILESYSTEM_ATTRS_READ"],
  [/^filesystem\./, "FILESYSTEM_ATTRS_WRITE"],
  [/^replication\./, "REPLICATION_TASK_WRITE"],
  [/^service\./, "SERVICE_READ"],
  [/^pool\./, "POOL_READ"],
  [/^sharing\.nfs\./, "SHARING_NFS_WRITE"],
  [/^sharing\.smb\./, "SHARING_SMB_WRITE"],
  [/^iscsi\./, "SHARING_ISCSI_WRITE"],
  [/^nvmet\./, "SHARING_NVME_TARGET_WRITE"],
];

/** What a failure of the API means to a caller; undefined for any other failure. */
export function apiErrorMapping(error: unknown): ErrorMapping | undefined {
  if (error instanceof HttpError) return { code: httpCodes[error.failure], text: error.message };
  if (error instanceof NotTrueNas) return { code: "failed-precondition", text: error.message };
  if (error instanceof LostJob) return { code: "unavailable", text: error.message };
  if (error instanceof LoginRefused)
    return { code: "unauthenticated", text: loginTexts[error.answer] ?? error.message };
  return error instanceof ApiError ? refusalMapping(error) : undefined;
}

function refusalMapping(error: ApiError): ErrorMapping {
  const { method, message } = error;
  if (isDenied(error)) {
    const role = roles.find(([pattern]) => pattern.test(method))?.[1] ?? "FULL_ADMIN";
    return { code: "permission-denied", text: `the account lacks the role ${role} that ${method} needs` };
  }
  // Methods are chosen by the version, so the system was upgraded meanwhile; a retry asks for its version again.
  if (error.errno === errnos.noMethod)
    return { code: "unavailable", text: `this version of TrueNAS has no ${method}; if it was just upgraded, repeat` };
  const code: Code = isFull(error)
    ? "resource-exhausted"
    : isBusy(error)
      ? "aborted"
      : error.problems.length > 0
        ? "failed-precondition"
        : "internal";
  return { code, text: code === "aborted" ? `${message}; retrying` : message };
}
