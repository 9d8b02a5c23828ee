import { CsiError } from "../core/errors.ts";
import { connectionNameForm } from "../core/handle.ts";
import type { CheckResult, Connection, StorageState } from "./connection.ts";

/**
 * What to answer if a connection has no file. "refuse": a class or claim names it, and its author can correct that (a final answer,
 * unless something may have been begun on it). "retry": an existing volume is on it, or may be, and must never be taken for gone.
 */
export type WhenUnavailable = "refuse" | "retry";

/** A connection that cannot be used. `isOut`: because its file is missing or invalid. */
export interface Unusable {
  readonly isOut: boolean;
  readonly error: (when: WhenUnavailable) => CsiError;
}

/** A text that cannot be the name of a connection. */
export const badName = (name: string): CsiError =>
  new CsiError("invalid-argument", `"${name.slice(0, 80)}" cannot name a connection: use ${connectionNameForm}`);

/**
 * A file that cannot be used. Never a final answer, for a class neither: a volume may have been made on the connection before csimux
 * started again, and a provisioner that ends on the answer would leave it there.
 */
export const unopened = (name: string, { message }: CsiError): CsiError =>
  new CsiError("unavailable", `connection "${name}" cannot be opened: ${message}`);

/**
 * There is no file. Never "invalid-argument" for a class: its Secret may arrive a snapshot later, and external-provisioner holds a
 * claim back for minutes after that code. `mayBeUsed`: what is requested may have been begun before, so the answer is not final.
 */
export const missing = (name: string, when: WhenUnavailable, mayBeUsed: boolean): CsiError =>
  when === "refuse"
    ? new CsiError(
        mayBeUsed ? "unavailable" : "failed-precondition",
        `connection "${name}" is not configured; add the file ${name}.yaml or correct the StorageClass or volume specification`,
      )
    : new CsiError("unavailable", `connection "${name}" is not configured any more; restore its file ${name}.yaml`);

/** A file that would hand the volumes of one driver to another. */
export const changedFamily = (old: Pick<Connection, "driverName">, now: Connection): CsiError =>
  new CsiError(
    "failed-precondition",
    `driver changed from "${old.driverName}" to "${now.driverName}", which cannot serve the same volumes; use a new connection name`,
  );

const states: Readonly<Partial<Record<CsiError["code"], StorageState>>> = {
  unavailable: "unreachable",
  "deadline-exceeded": "unreachable",
  unauthenticated: "login-refused",
  "permission-denied": "login-refused",
};

/** The state of a storage system that a failed request shows. */
const stateAfter = (error: unknown): StorageState =>
  error instanceof CsiError ? (error.refused ?? states[error.code] ?? "unusable") : "unusable";

/** Whether a request failed because the storage system does not accept the credentials or the account. */
export const isLoginRefused = (error: unknown): boolean => stateAfter(error) === "login-refused";

/**
 * The error of a creation. While the storage system refuses the login, csimux cannot look for what an earlier call has made whose answer was
 * lost: a provisioner that ends on the answer would leave it there.
 */
export const uncertain = (error: unknown): unknown =>
  error instanceof CsiError && error.code === "unauthenticated"
    ? new CsiError("unavailable", `${error.message}; retrying, because a part of it may exist`, {
        cause: error,
        refused: "login-refused",
      })
    : error;

/** What a request says about the storage system, according to its error if it failed; `before`: the result before it. */
export function checkResult(error: unknown, before: CheckResult | undefined): CheckResult {
  const state = error === undefined ? "good" : stateAfter(error);
  const at = Date.now();
  const since = before?.state === state ? before.since : at;
  if (error === undefined) return { state, at, since, reason: undefined };
  return { state, at, since, reason: error instanceof CsiError ? error.message : "unexpected failure; see the log" };
}
