import { protocols } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { ShareProtocol } from "../store.ts";
import type { ObjectiveFsVolume } from "./store.ts";

/** A file system is reachable as soon as it is there, by everybody who has the keys: those are in the node-stage secret. */
export class ObjectiveFsShare implements ShareProtocol<ObjectiveFsVolume> {
  readonly protocol = "objectivefs";
  readonly access = protocols.objectivefs;
  readonly growsOnNode = false;
  readonly #pool: string;
  readonly #store: string;

  /** `store`: which object store, such as "minio://". */
  constructor(pool: string, store: string) {
    this.#pool = pool;
    this.#store = store;
  }

  context({ filesystem, notes }: ObjectiveFsVolume): Context {
    return { filesystem: `${this.#pool}/${filesystem}`, ...notes, "env.OBJECTSTORE": this.#store };
  }
}
