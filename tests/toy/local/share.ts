import { protocols } from "../../../lib/core/access.ts";
import type { Context } from "../../../lib/drivers/driver.ts";
import type { ShareProtocol, StoredVolume } from "../../../lib/drivers/store.ts";

/** A folder that its node can mount as soon as it exists: there is nothing to publish. */
export class ToyLocalShare implements ShareProtocol<StoredVolume> {
  readonly protocol = "hostpath";
  readonly access = protocols.hostpath;
  readonly growsOnNode = false;
  readonly #base: string;

  constructor(base: string) {
    this.#base = base;
  }

  context({ id }: StoredVolume): Context {
    return { path: `${this.#base}/${id}/data` };
  }
}
