import type { Call } from "../core/call.ts";
import type { Connection } from "./connection.ts";

/**
 * Removes what an interrupted creation of this name left here, because the repeat goes elsewhere.
 * The caller holds the lock of the volume.
 */
export async function clearLeftover(connection: Connection, name: string, call: Call): Promise<void> {
  const id = await connection.driver.leftover(name, call);
  if (id !== undefined) await connection.driver.delete(id, call);
}
