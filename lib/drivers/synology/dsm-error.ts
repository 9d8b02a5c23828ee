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
  noSnapshot: 18990532,
  lunExists: 18990538,
  noTarget: 18990710,
  targetNameExists: 18990744,
  iqnExists: 18990745,
  shareExists: 3301,
  noNfsRule: 2301,
} as const;

/** DSM has two answers for a LUN that does not exist: "no such LUN" and "bad UUID". */
const noLun: readonly number[] = [18990531, 18990505];
export const isNoLun = (error: unknown): boolean => error instanceof DsmError && noLun.includes(error.code);

/** Whether DSM was busy with another change of shared folders or NFS rules, and did nothing. */
export const isShareBusy = (error: unknown): boolean =>
  error instanceof DsmError && [3328, 3330, 3332, 2370].includes(error.code);

/** Whether DSM refused a change of a shared folder without a reason, as it does while an earlier change settles. */
export const isShareUnsettled = (error: unknown): boolean => error instanceof DsmError && error.code === 3300;

/** Whether DSM answered with this code. */
export const isAnswer = (error: unknown, code: number): error is DsmError =>
  error instanceof DsmError && error.code === code;

/** What a failed request counts as, if DSM's answer is one of those that `isFine` knows. */
export const unless =
  <T>(isFine: (error: unknown) => boolean, value: T) =>
  (error: unknown): T => {
    if (isFine(error)) return value;
    throw error;
  };

/** Whether the session has ended: timed out, replaced by another login, unknown. DSM 7 also answers so if a permission is missing. */
export const endsSession = (error: unknown): boolean =>
  error instanceof DsmError && [105, 106, 107, 119, 150].includes(error.code);

const authApi = "SYNO.API.Auth";

/** Whether DSM refused the login itself, so that a retry would be refused, too. */
export const refusesLogin = (error: unknown): error is DsmError => error instanceof DsmError && error.api === authApi;

/** The texts of DSM's own pages for most of these numbers: N4S4/synology-api 50b4343, error_codes.py. */
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
  411: ["unauthenticated", "the account is locked"],
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
  109: ["unavailable", "DSM could not be asked; it may be starting"],
  110: ["unavailable", "DSM could not be asked; it may be starting"],
  111: ["unavailable", "DSM could not be asked; it may be starting"],
  117: ["unavailable", "DSM is busy"],
  118: ["unavailable", "DSM is busy"],
  119: ["unavailable", "the session is unknown"],
  150: ["unavailable", "the session belongs to another address: this machine's address has changed"],
};

const san: Numbers = {
  18990002: ["resource-exhausted", "the volume is full"],
  18990004: ["invalid-argument", "DSM rejects a parameter of this request"],
  18990318: [
    "invalid-argument",
    "DSM could not create the LUN in its file system: BLUN needs Btrfs, use THIN or FILE on ext4",
  ],
  18990500: ["invalid-argument", "this type of LUN does not exist there, or cannot do this"],
  18990501: ["failed-precondition", "DSM cannot make LUNs on this volume: check synology.volume"],
  18990502: ["out-of-range", "DSM rejects this size"],
  18990503: ["invalid-argument", "DSM rejects this name or type"],
  18990505: ["not-found", "the LUN does not exist"],
  18990513: ["already-exists", "a snapshot of this name exists"],
  18990531: ["not-found", "the LUN does not exist"],
  [errors.noSnapshot]: ["not-found", "the snapshot does not exist"],
  [errors.lunExists]: ["already-exists", "a LUN of this name exists"],
  18990541: ["resource-exhausted", "the system has its maximum number of LUNs"],
  18990542: ["resource-exhausted", "the system has its maximum number of targets"],
  18990543: ["resource-exhausted", "the LUN has its maximum number of snapshots"],
  18990619: ["invalid-argument", "this type of LUN does not exist there"],
  18990622: ["invalid-argument", "an attribute of dev_attribs does not fit the type of the LUN"],
  18990635: ["invalid-argument", "direct_io_pattern does not fit the type of the LUN"],
  18990700: ["invalid-argument", "DSM rejects the target's name: check baseiqn, namePrefix and nameSuffix"],
  18990702: ["invalid-argument", "DSM rejects the target's auth_type: check targetTemplate"],
  18990708: [
    "invalid-argument",
    "DSM rejects the CHAP credentials: use 12 to 16 letters and digits, different ones for node and target",
  ],
  [errors.noTarget]: ["not-found", "the target does not exist"],
  [errors.targetNameExists]: ["already-exists", "a target of this name exists"],
  [errors.iqnExists]: ["already-exists", "a target with this IQN exists"],
};

const shares: Numbers = {
  402: ["not-found", "the shared folder does not exist"],
  403: ["invalid-argument", "DSM rejects a value of this request"],
  [errors.noNfsRule]: [
    "failed-precondition",
    "DSM takes no NFS rules: switch NFS on (Control Panel, File Services, NFS), and check nfs.squash and nfs.allowedHosts",
  ],
  2370: ["unavailable", "DSM is busy with NFS rules"],
  2371: [
    "failed-precondition",
    "DSM cannot set the NFS rules while something is mounted inside the shared folder; unmount that on DSM",
  ],
  2372: [
    "failed-precondition",
    "DSM has no NFS rules for the file system of this volume (HFS+): check synology.volume",
  ],
  3300: ["failed-precondition", "DSM cannot do this with the shared folder: is its volume Btrfs?"],
  [errors.shareExists]: ["already-exists", "a shared folder of this name exists"],
  3304: ["failed-precondition", "DSM has no such volume: check synology.volume"],
  3305: ["invalid-argument", "DSM rejects the name of the shared folder"],
  3309: ["resource-exhausted", "the system has its maximum number of shared folders"],
  3312: ["failed-precondition", "a folder of this name that is not shared exists on the volume of DSM; move it away"],
  3313: ["failed-precondition", "DSM has no such volume: check synology.volume"],
  3314: ["failed-precondition", "the volume of DSM is read-only: check its condition in Storage Manager"],
  3319: ["invalid-argument", "DSM rejects the name of the shared folder"],
  3320: ["resource-exhausted", "the volume of DSM has not enough free space"],
  3328: ["unavailable", "DSM is busy with shared folders"],
  3329: ["resource-exhausted", "the shared folder has its maximum number of snapshots"],
  3330: ["unavailable", "DSM is busy with shared folders"],
  3332: ["unavailable", "DSM is busy with shared folders"],
  3341: ["resource-exhausted", "the quota of the shared folder is used up"],
  3350: ["failed-precondition", "the shared folder has snapshots that DSM keeps for a set time"],
};

const volumes: Numbers = { 117: ["failed-precondition", "DSM has no such volume: check synology.volume"] };

/** Whether DSM answered that the shared folder does not exist. */
export const isNoShare = (error: unknown): boolean =>
  error instanceof DsmError && error.code === 402 && error.api !== authApi;

const tables: readonly (readonly [api: RegExp, Numbers])[] = [
  [/^SYNO\.API\.Auth$/, login],
  [/^SYNO\.Core\.ISCSI\./, san],
  [/^SYNO\.Core\.(?:Share|FileServ)(?:\.|$)/, shares],
  [/^SYNO\.Core\.Storage\.Volume$/, volumes],
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
