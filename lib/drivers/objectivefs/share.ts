import { protocols } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { ShareProtocol } from "../store.ts";
import type { ObjectiveFsVolume } from "./store.ts";

/** Every node with the keys, which are in the node-stage secret, can reach a file system as soon as it exists. */
export class ObjectiveFsShare implements ShareProtocol<ObjectiveFsVolume> {
  readonly protocol = "objectivefs";
  readonly access = protocols.objectivefs;
  readonly growsOnNode = false;
  readonly #pool: string;
  readonly #store: string;

  /** `store`: the object store, such as "minio://". */
  constructor(pool: string, store: string) {
    this.#pool = pool;
    this.#store = store;
  }

  context({ filesystem, notes }: ObjectiveFsVolume): Context {
    return { filesystem: `${this.#pool}/${filesystem}`, ...notes, "env.OBJECTSTORE": this.#store };
  }
}
