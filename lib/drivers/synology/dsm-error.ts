import type { Code } from "../../core/errors.ts";
import { HttpError, httpCodes } from "../../io/dial.ts";
import type { ErrorMapping } from "../failure.ts";

/** DSM refused a call. The meaning of a code depends on the API. */
export class DsmError extends Error {
  override readonly name = "DsmError";
  readonly api: string;
  readonly method: string;
  readonly code: number;
  constructor(api: string, method: string, code: number) {
    super(`${api} ${method} failed with error ${code}`);
    this.api = api;
    this.method = method;
    this.code = code;
  }
}

/** The server is not a DSM, or not a usable one. */
export class NotDsm extends Error {
  override readonly name = "NotDsm";
}

/** The codes that the driver acts on. */
export const errors = {
  noLun: 18990531,
  noSnapshot: 18990532,
  lunExists: 18990538,
  noTarget: 18990710,
  targetExists: 18990744,
  shareExists: 3301,
} as const;

/** Whether DSM answered with this code. */
export const isAnswer = (error: unknown, code: number): error is DsmError =>
  error instanceof DsmError && error.code === code;

/** Whether the session has ended: timed out, replaced by another login, unknown. DSM 7 also answers so if a permission is missing. */
export const endsSession = (error: unknown): boolean =>
  error instanceof DsmError && [105, 106, 107, 119].includes(error.code);

const authApi = "SYNO.API.Auth";

/** Whether DSM refused the login itself, so that a retry would be refused, too. */
export const refusesLogin = (error: unknown): error is DsmError => error instanceof DsmError && error.api === authApi;

type Numbers = Readonly<Record<number, readonly [Code, string]>>;

const secondFactor = "the account requires a second factor: use one without (Control Panel, User, Advanced)";

const login: Numbers = {
  400: ["unauthenticated", "user name or password are wrong"],
  401: ["unauthenticated", "the account is disabled"],
  402: ["permission-denied", "the account may not log in to DSM"],
  403: ["failed-precondition", secondFactor],
  404: ["failed-precondition", secondFactor],
  405: ["failed-precondition", secondFactor],
  406: ["failed-precondition", secondFactor],
  407: [
    "unavailable",
    "DSM has blocked this address after failed logins (Control Panel, Security, Auto Block); remove it there",
  ],
  408: ["unauthenticated", "the password has expired"],
  409: ["unauthenticated", "the password has expired"],
  410: ["unauthenticated", "the password must be changed first"],
};

/** Codes below 400 are the same in every API. */
const common: Numbers = {
  101: ["invalid-argument", "DSM rejects a parameter of this request"],
  102: ["failed-precondition", "this DSM has no such API: is SAN Manager (iSCSI Manager) installed?"],
  103: ["failed-precondition", "this version of DSM has no such method"],
  104: ["failed-precondition", "this version of DSM is too old or too new"],
  105: ["permission-denied", "the account lacks the permission: it must be an administrator"],
  106: ["unavailable", "the session has ended"],
  107: ["unavailable", "another login has ended the session: every installation needs its own httpConnection.session"],
  117: ["unavailable", "DSM is busy"],
  119: ["unavailable", "the session is unknown"],
};

const san: Numbers = {
  18990002: ["resource-exhausted", "the volume is full"],
  18990318: ["invalid-argument", "this type of LUN does not fit the file system: BLUN on Btrfs, THIN or FILE on ext4"],
  18990500: ["invalid-argument", "this type of LUN does not exist there"],
  18990503: ["invalid-argument", "DSM rejects this name"],
  [errors.noLun]: ["not-found", "the LUN does not exist"],
  [errors.noSnapshot]: ["not-found", "the snapshot does not exist"],
  [errors.lunExists]: ["already-exists", "a LUN of this name exists"],
  18990541: ["resource-exhausted", "the system has its maximum number of LUNs"],
  18990542: ["resource-exhausted", "the system has its maximum number of targets"],
  18990543: ["resource-exhausted", "the LUN has its maximum number of snapshots"],
  18990635: ["invalid-argument", "direct_io_pattern does not fit the type of the LUN"],
  18990708: [
    "invalid-argument",
    "DSM rejects the CHAP credentials: use 12 to 16 letters and digits, different ones for node and target",
  ],
  [errors.noTarget]: ["not-found", "the target does not exist"],
  [errors.targetExists]: ["already-exists", "a target of this name exists"],
};

const shares: Numbers = {
  402: ["not-found", "the shared folder does not exist"],
  403: ["invalid-argument", "DSM rejects a value of this request"],
  3300: ["failed-precondition", "DSM cannot do this with the shared folder: is its volume Btrfs?"],
  [errors.shareExists]: ["already-exists", "a shared folder of this name exists"],
  3309: ["resource-exhausted", "the system has its maximum number of shared folders"],
  3328: ["unavailable", "DSM is busy with shared folders"],
};

/** Whether DSM answered that the shared folder does not exist. */
export const isNoShare = (error: unknown): boolean =>
  error instanceof DsmError && error.code === 402 && error.api !== authApi;

const tables: readonly (readonly [api: RegExp, Numbers])[] = [
  [/^SYNO\.API\.Auth$/, login],
  [/^SYNO\.Core\.ISCSI\./, san],
  [/^SYNO\.Core\.(?:Share|FileServ)(?:\.|$)/, shares],
];

/** The meaning of a failure of DSM's API; undefined for any other error. */
export function explainDsm(error: unknown): ErrorMapping | undefined {
  if (error instanceof HttpError) return { code: httpCodes[error.failure], text: error.message };
  if (error instanceof NotDsm) return { code: "failed-precondition", text: error.message };
  if (!(error instanceof DsmError)) return undefined;
  const own = tables.find(([api]) => api.test(error.api))?.[1] ?? {};
  const [code, text] = own[error.code] ?? (error.code < 400 ? common[error.code] : undefined) ?? ["internal", ""];
  return { code, text: text === "" ? error.message : `${text} (${error.message})` };
}
