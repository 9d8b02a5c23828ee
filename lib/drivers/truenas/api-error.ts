/** What a TrueNAS answered instead of a result, whichever way it was asked; and what that means. */

/** One problem of a request: which field, what is said about it, errno(3). */
export interface Problem {
  readonly attribute: string | undefined;
  readonly message: string;
  readonly errno: number;
}

/** errno(3) on Linux, and TrueNAS' own number for somebody who is not logged in. */
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

/** A method that the server refused or that failed there. Nothing is known to have been changed by it. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly method: string;
  /** 0 when the server gave none. */
  readonly errno: number;
  readonly problems: readonly Problem[];
  constructor(method: string, errno: number, message: string, problems: readonly Problem[] = []) {
    super(`${method}: ${message}`);
    this.method = method;
    this.errno = errno;
    this.problems = problems;
  }

  /** The same error, its problems with other texts. */
  rewritten(change: (text: string) => string): ApiError {
    const problems = this.problems.map(({ attribute, message, errno }) => {
      return { attribute: attribute === undefined ? undefined : change(attribute), message: change(message), errno };
    });
    return new ApiError(this.method, this.errno, this.message.slice(`${this.method}: `.length), problems);
  }
}

/** A job that was started and of which nothing is known any more: the server has begun anew, or was not to be reached. */
export class LostJob extends Error {
  override readonly name = "LostJob";
  constructor(method: string) {
    super(`${method}: the server has forgotten this job; it was probably restarted`);
  }
}

const speaksOf = (error: unknown, ...numbers: readonly number[]): error is ApiError =>
  error instanceof ApiError &&
  (numbers.includes(error.errno) || error.problems.some(({ errno }) => numbers.includes(errno)));

/** What the request names is not there. */
export const isMissing = (error: unknown): boolean => speaksOf(error, errnos.missing);

/** Something is in the way: in use, held, or with clones. */
export const isBusy = (error: unknown): boolean => speaksOf(error, errnos.busy);

/** The request was refused as it stands; asking again what exists tells why. */
export const isRefused = (error: unknown): error is ApiError => error instanceof ApiError;

/** Somebody who is not logged in, or who may not do this. */
export const isDenied = (error: unknown): boolean => speaksOf(error, errnos.denied, errnos.notLoggedIn);

/** No space, or the server's rule of 80 % for volumes. */
export const isFull = (error: unknown): boolean =>
  speaksOf(error, errnos.full, errnos.quota) ||
  (error instanceof ApiError &&
    error.problems.some(each => each.attribute?.endsWith(".volsize") && /80%/.test(each.message)));
