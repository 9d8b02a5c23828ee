import type { Access } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Context, Driver, InlineAbility, InlineVolume, Volume } from "../../driver.ts";
import { type ErrorMapping, type FailureContext, guarded } from "../../failure.ts";
import type { ConnectionIdentity } from "../../module.ts";
import { zfsErrorMapping } from "../error-mapping.ts";
import { markProperties, whyNotVolume } from "../marks.ts";
import { isVolumeId, longestName } from "../names.ts";
import { property } from "../user-properties.ts";
import { ownValue, shownValue } from "../volume.ts";
import { type Entry, untrue, type Zfs } from "../zfs.ts";
import { type InlineProperties, inlineValues } from "./inline-values.ts";

/** Where inline volumes are made, and how. */
export interface InlineSettings {
  /** The dataset above `v`. */
  readonly parent: string;
  readonly properties: InlineProperties;
  readonly access: Access;
}

const looked = ["type", "guid", property.managed, property.volumeName, ...markProperties];

/** Datasets of the node's own pool that live with their pod. Pods describe them; nobody claims or lists them. */
export class InlineDriver implements Driver, InlineAbility, FailureContext {
  readonly protocol = "zfs-local";
  readonly local = true;
  readonly access: Access;
  readonly connection: string;
  readonly inline: InlineAbility = this;
  readonly #identity: ConnectionIdentity;
  readonly #settings: InlineSettings;
  readonly #zfs: Zfs;
  readonly #close: () => Promise<void>;

  /** Does no I/O. */
  constructor(identity: ConnectionIdentity, settings: InlineSettings, zfs: Zfs, close: () => Promise<void>) {
    this.access = settings.access;
    this.connection = identity.connection;
    this.#identity = identity;
    this.#settings = settings;
    this.#zfs = zfs;
    this.#close = close;
  }

  explain(error: unknown): ErrorMapping | undefined {
    return zfsErrorMapping(error);
  }

  async create(): Promise<Volume> {
    throw this.#error("invalid-argument", "makes no volumes for claims; pods describe them (csi: in their volumes)");
  }

  async delete(id: string): Promise<void> {
    throw this.#error("failed-precondition", `volume "${id.slice(0, 128)}" goes with its pod, not before`);
  }

  check(call: Call): Promise<void> {
    const look = { names: [this.#pool], properties: ["type"] };
    return guarded(this, "use the storage", "", call, async () => void (await this.#zfs.read(look, call.signal)));
  }

  close(): Promise<void> {
    return this.#close();
  }

  /** As InlineAbility.make. Mounted by the node alone ("legacy"), so that it is nowhere else to be seen. */
  make(id: string, attributes: Context, begin: (source: string) => Promise<void>, call: Call): Promise<InlineVolume> {
    return guarded(this, "make volume", id, call, async () => {
      const name = this.#dataset(id);
      const values = inlineValues(this.#settings.properties, attributes, this.#identity, id);
      await begin(name);
      const dataset = { name, volsize: undefined, values, permissions: undefined };
      const look = { names: [this.#pool, name], properties: looked };
      const made = await this.#zfs.create(dataset, true, look, call.signal);
      const entry = this.#own(id, made.entries.get(name));
      if (!entry) throw untrue(`made ${name}`);
      return { fsType: "zfs", source: name, identity: shownValue(entry, "guid") ?? "" };
    });
  }

  /** As InlineAbility.remove. Its own snapshots go with it; datasets below it are somebody else's, and keep it. */
  remove(id: string, identity: string | undefined, call: Call): Promise<void> {
    return guarded(this, "remove volume", id, call, async () => {
      const name = this.#dataset(id);
      const family = await this.#zfs.family(name, { names: [this.#pool], properties: looked }, call.signal);
      const found = family.get(name);
      if (!found) return;
      this.#own(id, found);
      if (identity !== undefined && shownValue(found, "guid") !== identity)
        throw this.#error(
          "failed-precondition",
          `${name} is not the dataset that was made for volume "${id}"; it stays`,
        );
      const all = [...family.keys()];
      const below = all.find(each => each.startsWith(`${name}/`));
      if (below !== undefined)
        throw this.#error(
          "failed-precondition",
          `${below} lies in volume "${id}" and is not csimux's; remove it first`,
        );
      // Named one by one: nothing goes that was not seen.
      const snapshots = all.filter(each => each.startsWith(`${name}@`)).map(each => each.slice(name.length + 1));
      await this.#zfs.destroy(name, { snapshots }, call.signal);
    });
  }

  get #pool(): string {
    return this.#settings.parent.split("/")[0] ?? "";
  }

  #dataset(id: string): string {
    const name = `${this.#settings.parent}/v/${id}`;
    if (isVolumeId(id) && name.length <= longestName) return name;
    throw this.#error(
      "invalid-argument",
      `"${id.slice(0, 160)}" cannot be the id of a volume in ${this.#settings.parent}`,
    );
  }

  /** Throws "failed-precondition" for a dataset that was not made for this volume. */
  #own(id: string, entry: Entry | undefined): Entry | undefined {
    const { driver, instanceId } = this.#identity;
    const own = entry && whyNotVolume(id, entry, { driver, instanceId, idOf: name => name }) === undefined;
    if (!entry || (own && ownValue(entry, property.volumeName) === id)) return entry;
    throw this.#error("failed-precondition", `the dataset ${entry.name} was not made for volume "${id}"; it stays`);
  }

  #error(code: "invalid-argument" | "failed-precondition", what: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${what}`);
  }
}
