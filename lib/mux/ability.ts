import { CsiError } from "../core/errors.ts";
import type { Ability, Driver } from "../drivers/driver.ts";
import type { Breakers } from "./breakers.ts";
import type { Connection } from "./connection.ts";

const words: Readonly<Record<Ability, string>> = {
  names: "look volumes up by their names",
  reading: "read a volume",
  modify: "change properties of a volume",
  groupSnapshots: "take snapshots of several volumes at once",
  expand: "expand volumes",
  snapshots: "take snapshots",
  clones: "make a volume from another one",
  capacity: "tell its capacity",
  inventory: "list its volumes",
  health: "tell the health of its volumes",
  inline: "make volumes that live with their pod",
};

/**
 * The member, or the one answer for an operation that this connection cannot do: "invalid-argument", because
 * sidecars read "unimplemented" as a statement about the whole driver.
 */
export function ability<A extends Ability>(connection: Connection, name: A): NonNullable<Driver[A]> {
  const member = connection.driver[name];
  if (member === undefined) throw unable(connection, words[name]);
  return member as NonNullable<Driver[A]>;
}

/** The refusal of something that a connection cannot do, in plain words. */
export const unable = (connection: Connection, what: string): CsiError =>
  new CsiError("invalid-argument", `connection "${connection.name}" (driver ${connection.driverName}) cannot ${what}`);

/**
 * The answer of a connection's driver to `question`, which is not put to a storage that is known to be away (Breakers.ask). Its
 * "unimplemented" becomes "invalid-argument", for the same reason as above.
 */
export async function asked<T>(
  breakers: Pick<Breakers, "ask">,
  connection: Connection,
  question: () => Promise<T>,
): Promise<T> {
  try {
    return await breakers.ask(connection, question);
  } catch (error) {
    if (!(error instanceof CsiError && error.code === "unimplemented")) throw error;
    throw new CsiError(
      "invalid-argument",
      `connection "${connection.name}" (driver ${connection.driverName}): ${error.message}`,
      {
        cause: error,
      },
    );
  }
}
