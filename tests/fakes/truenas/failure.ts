/** One problem of a request: attribute, text, errno. */
export type Triple = readonly [attribute: string | null, message: string, errno: number];

/** errno(3), and TrueNAS' own numbers. */
const errnos = {
  ENOENT: 2,
  EACCES: 13,
  EFAULT: 14,
  EBUSY: 16,
  EEXIST: 17,
  EINVAL: 22,
  ENOSPC: 28,
  ENOTEMPTY: 39,
  EBADMSG: 74,
  ENOMETHOD: 201,
  ENOTAUTHENTICATED: 207,
} as const;

/** EZFS_BUSY in zfs_error_t (libzfs.h of OpenZFS 2.3): 26 hands on the codes of libzfs as if they were errno(3). */
export const ezfsBusy = 2007;

export type Errname = keyof typeof errnos;

/** A request that does not fit the model or the state: every problem at once. */
export class Invalid extends Error {
  readonly extra: readonly Triple[];
  constructor(...extra: readonly Triple[]) {
    super(extra.map(([attribute, message]) => `${attribute}: ${message}`).join("; "));
    this.extra = extra;
  }
}

/** A method that failed while it ran. */
export class CallError extends Error {
  readonly errname: Errname;
  readonly errno: number;
  readonly trace: string;
  constructor(errname: Errname, reason: string, trace = "CallError") {
    super(reason);
    this.errname = errname;
    this.errno = errnos[errname];
    this.trace = trace;
  }
}

/** The `error` of a JSON-RPC answer. */
export function rpcErrorOf(error: unknown): object {
  if (error instanceof Invalid) {
    const reason = error.extra.map(([attribute, message, errno]) => `[${errno}] ${attribute}: ${message}`).join("\n");
    return {
      code: -32602,
      message: "Invalid params",
      data: { error: 22, errname: "EINVAL", reason, trace: null, extra: error.extra },
    };
  }
  if (!(error instanceof CallError)) throw error;
  const { errno, errname, message, trace } = error;
  return {
    code: -32001,
    message: "Method call error",
    data: {
      error: errno,
      errname,
      reason: `[${errname}] ${message}`,
      trace: { class: trace, formatted: "", repr: message },
      extra: null,
    },
  };
}

/**
 * Status and body of a REST answer: 422 also for an object that PUT and DELETE do not find (restful.py of 24.10.2.4: get_instance
 * throws InstanceNotFound, a validation error; only MatchNotFound of a query is 404).
 */
export function restErrorOf(error: unknown): { readonly status: number; readonly body: unknown } {
  if (error instanceof Invalid) {
    const body: Record<string, object[]> = {};
    for (const [attribute, message, errno] of error.extra) {
      const key = String(attribute);
      body[key] = [...(body[key] ?? []), { message, errno }];
    }
    return { status: 422, body };
  }
  if (!(error instanceof CallError)) throw error;
  if (error.errname === "ENOTAUTHENTICATED") return { status: 401, body: { message: error.message } };
  if (error.errname === "EACCES") return { status: 403, body: { message: error.message } };
  return { status: 422, body: { message: error.message, errno: error.errno } };
}
