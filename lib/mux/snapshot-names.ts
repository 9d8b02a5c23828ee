import type { Handle } from "../core/handle.ts";

/** How many names are remembered; the oldest go first. */
const most = 10_000;

/**
 * Which connection has the snapshot of a name. CSI wants names to be unique over the whole driver (CSI CreateSnapshot), and a
 * connection knows only its own; asking all of them for each snapshot would make one dead box stop the snapshots of all others.
 * So conflicts between connections are found among the snapshots that this process has made.
 */
export class SnapshotNames {
  readonly #made = new Map<string, Handle>();

  /** This process has made the snapshot. */
  remember(name: string, snapshot: Handle): void {
    this.#made.delete(name);
    this.#made.set(name, snapshot);
    const [oldest] = this.#made.keys();
    if (this.#made.size > most && oldest !== undefined) this.#made.delete(oldest);
  }

  /** The snapshot of this name on another connection, if this process has made one. It may be gone by now. */
  elsewhere(name: string, connection: string): Handle | undefined {
    const made = this.#made.get(name);
    return made?.connection === connection ? undefined : made;
  }
}
