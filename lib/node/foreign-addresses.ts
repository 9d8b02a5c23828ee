import { foreignAddressRemedy } from "../core/addresses.ts";
import type { Call } from "../core/call.ts";
import { type Code, CsiError } from "../core/errors.ts";
import { Said } from "../core/log.ts";
import type { VolumeContext } from "./requests.ts";

/** Says in words that a volume's addresses are none of its connection's; undefined if that is not so or not known. */
export type ForeignAddress = (volumeId: string, context: VolumeContext) => Promise<string | undefined>;

/** Failures that another address of the storage may explain. */
const explained: ReadonlySet<Code> = new Set<Code>([
  "unavailable",
  "deadline-exceeded",
  "not-found",
  "permission-denied",
  "internal",
]);

/** Warns about volumes with addresses of an earlier time, and refuses none: the old address may still work. */
export class ForeignAddresses {
  readonly #find: ForeignAddress;
  readonly #said = new Said();

  constructor(find: ForeignAddress) {
    this.#find = find;
  }

  /** Does `work` with a volume. Each text is a warning once; it is added to failures that it may explain. */
  async during(volumeId: string, context: VolumeContext, call: Call, work: () => Promise<void>): Promise<void> {
    const found = await this.#find(volumeId, context);
    if (found === undefined) return await work();
    const text = `${found}; ${foreignAddressRemedy}`;
    if (this.#said.isNew(text)) call.log.warn(text, { volumeId });
    try {
      await work();
    } catch (error) {
      if (!(error instanceof CsiError) || !explained.has(error.code)) throw error;
      throw new CsiError(error.code, `${error.message}; ${text}`, { cause: error });
    }
  }
}
