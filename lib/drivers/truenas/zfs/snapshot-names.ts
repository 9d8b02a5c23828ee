import { TakenNames } from "../../taken-names.ts";
import type { PropertyQuery, SnapshotName, SnapshotsOfName } from "../../zfs/zfs.ts";
import type { DatasetReader } from "./reading.ts";

/** What has the name of a snapshot. A connection asks for one parent only, so there is one memory of names. */
export class SnapshotNames {
  readonly #reading: DatasetReader;
  #taken: TakenNames | undefined;

  constructor(reading: DatasetReader) {
    this.#reading = reading;
  }

  /** As Zfs.snapshotsNamed. */
  async of(wanted: SnapshotName, query: PropertyQuery, signal: AbortSignal): Promise<SnapshotsOfName> {
    const { name, parent, copies } = wanted;
    const reading = this.#reading;
    if (copies !== undefined && !(await this.#take(name, parent, copies, query.names, signal)))
      return { holders: [], copies: [], entries: await reading.read(query, signal) };
    const [holders, datasets, entries] = await Promise.all([
      reading.holders(parent, name, signal),
      copies === undefined ? [] : reading.datasetsBelow(copies, query.names, signal),
      reading.read(query, signal),
    ]);
    return { holders, copies: datasets.filter(each => each.endsWith(`/${name}`)), entries };
  }

  /** Whether a new snapshot's name may be taken. */
  async #take(name: string, parent: string, copies: string, along: readonly string[], signal: AbortSignal) {
    this.#taken ??= new TakenNames(async listing => {
      const [snapshots, datasets] = await Promise.all([
        this.#reading.snapshotNames(parent, listing),
        this.#reading.datasetsBelow(copies, along, listing),
      ]);
      const copied = datasets.map(each => each.slice(each.lastIndexOf("/") + 1));
      return [...snapshots, ...copied].map(each => [each, parent]);
    });
    return (await this.#taken.take(name, parent, signal)) !== undefined;
  }
}
