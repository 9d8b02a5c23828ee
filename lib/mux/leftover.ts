import type { Call } from "../core/call.ts";
import type { Volume } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";

/** The volume that was made under this name; undefined also where the driver cannot look up by name. */
export async function existing({ driver }: Connection, name: string, call: Call): Promise<Volume | undefined> {
  const found = await driver.names?.find(name, call);
  return found?.kind === "volume" ? found.volume : undefined;
}

/**
 * Removes what an interrupted creation of this name left here, because the repeat goes elsewhere.
 * The caller holds the lock of the volume.
 */
export async function clearLeftover({ driver }: Connection, name: string, call: Call): Promise<void> {
  const found = await driver.names?.find(name, call);
  if (found?.kind === "unfinished") await driver.delete(found.id, call);
}
