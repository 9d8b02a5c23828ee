import type { Capability } from "../core/access.ts";
import type { Log } from "../core/call.ts";
import { genericMountOptions } from "../core/mount-options.ts";
import type { Connection } from "./connection.ts";

/** What classes ask for and nobody gives, each told once in the life of the process: a class asks the same with every claim. */
export class IgnoredMountOptions {
  readonly #told = new Set<string>();

  /** Says which mount options of a new volume have no effect because its connection's volumes are folders that are there already. */
  warn(connection: Connection, capabilities: readonly Capability[], log: Log): void {
    if (connection.access.filesystems !== "any") return;
    for (const flag of capabilities.flatMap(({ mountFlags }) => mountFlags)) {
      // Its value may be a password.
      const [option = ""] = flag.split("=");
      const key = JSON.stringify([connection.name, option]);
      if (genericMountOptions.has(option) || this.#told.has(key) || this.#told.size >= 1000) continue;
      this.#told.add(key);
      log.warn(
        "a mount option of the class has no effect: the connection's volumes are folders that are there already",
        {
          connection: connection.name,
          option,
        },
      );
    }
  }
}
