import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { CopySpec, GivingAbility, TakingAbility } from "../drivers/copying.ts";
import type { Driver } from "../drivers/driver.ts";
import type { StreamWork } from "./by-stream.ts";
import type { CopiedBytes } from "./figures.ts";
import type { CopyRecord } from "./record.ts";
import type { CopyTimes } from "./times.ts";
import type { Turns } from "./turns.ts";

/** The connections, as copies use them: `work` gets the driver, which stays open until it settles. */
export type UseDriver = <T>(connection: string, work: (driver: Driver) => Promise<T>) => Promise<T>;

/** Lets the programs of both ends exchange a stream (by-stream.ts). */
export type CopyByStream = (work: StreamWork, call: Call) => Promise<{ readonly basic: boolean }>;

/** What all copies of a process share. */
export interface CopyParts {
  readonly use: UseDriver;
  readonly stream: CopyByStream;
  readonly turns: Turns;
  readonly times: CopyTimes;
  readonly copied: CopiedBytes;
  readonly idleMs: () => number;
  /** The name of this process in records: random, new with each start. */
  readonly self: string;
  readonly log: Log;
}

/** A copy to run. */
export interface CopyWork {
  readonly target: Handle;
  readonly source: Handle;
  readonly record: CopyRecord;
  readonly spec: CopySpec;
  /** Its landing was made a moment ago; otherwise the process that wrote the record may have ended before it made it. */
  readonly isNew: boolean;
  /** Its last owner was not asked: it may still write into the landing, should it wake up. */
  readonly isTakenOver: boolean;
  readonly dropAcls: boolean;
}

/**
 * How a copy ended: all data has arrived; it paused, and continues when it is asked for; it was cancelled through another process, and
 * its landing is removed; or why it cannot continue.
 */
export type CopyOutcome =
  | { readonly kind: "ready"; readonly record: CopyRecord }
  | { readonly kind: "paused"; readonly why: CsiError }
  | { readonly kind: "cancelled"; readonly why: CsiError }
  | { readonly kind: "failed"; readonly error: CsiError };

/** The ability of a driver to take content. Throws "unavailable": the connection's file was changed meanwhile. */
export const takingOf = ({ taking }: Driver, connection: string): TakingAbility => {
  if (taking) return taking;
  throw unable(connection, "take content of other connections any more");
};

/** The ability of a driver to give content. Throws "unavailable" likewise. */
export const givingOf = ({ giving }: Driver, connection: string): GivingAbility => {
  if (giving) return giving;
  throw unable(connection, "give its content to other connections any more");
};

/** The file of a connection was changed while a copy runs. */
export const unable = (connection: string, what: string): CsiError =>
  new CsiError("unavailable", `connection "${connection}" cannot ${what}; restore its file`);
