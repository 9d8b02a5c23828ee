import { CsiError } from "../core/errors.ts";
import { connectionNameForm } from "../core/handle.ts";
import type { Connection } from "./connection.ts";

/**
 * What a caller shall do where a connection cannot be used. "refuse": a class or a claim named it, whose author can mend it (an
 * answer that is final for this try). "retry": an existing volume is on it, or may be, and must never be taken for gone (repeat
 * until the file is back).
 */
export type WhenUnavailable = "refuse" | "retry";

/** A text that can name no connection. */
export const badName = (name: string): CsiError =>
  new CsiError("invalid-argument", `"${name.slice(0, 80)}" cannot name a connection: use ${connectionNameForm}`);

/** A file that cannot be used: the code of the error to a class, "unavailable" for a handle. */
export const unopened = (name: string, error: CsiError, then: WhenUnavailable): CsiError =>
  new CsiError(
    then === "refuse" ? error.code : "unavailable",
    `connection "${name}" cannot be opened: ${error.message}`,
  );

/**
 * There is no file. Never "invalid-argument" to a class: its Secret may arrive a moment later, and external-provisioner takes that
 * code for a claim that no repeat can help, and holds it back for minutes.
 */
export const missing = (name: string, then: WhenUnavailable): CsiError =>
  then === "refuse"
    ? new CsiError(
        "failed-precondition",
        `connection "${name}" is not configured; add the file ${name}.yaml or correct the class`,
      )
    : new CsiError("unavailable", `connection "${name}" is not configured any more; restore its file ${name}.yaml`);

/** A file that would hand the volumes of one driver to another. */
export const changedFamily = (old: Pick<Connection, "driverName">, now: Connection): CsiError =>
  new CsiError(
    "failed-precondition",
    `driver changed from "${old.driverName}" to "${now.driverName}", which cannot serve the same volumes; use a new connection name`,
  );
