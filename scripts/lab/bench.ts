import { equip } from "./equipment.ts";
import { down, type Guest, sshToRunning, up } from "./guest.ts";
import { chosenGuest, runningGuest } from "./guests.ts";

/** What tests need in a guest. */
export interface Equipment {
  /** The path of the compiled csimux. */
  readonly executable: string;
  /** The path of csi-sanity; undefined where it could not be built. */
  readonly sanity: string | undefined;
}

/** Where tests run. */
export interface Bench {
  /** The guest, started and equipped when there is none at the moment. */
  guest(): Promise<Guest>;
  /** Ends the guest if it is the bench's own; the next one is fresh. */
  clear(): Promise<void>;
}

/** A guest that was up before and stays up, whatever the tests do to it. */
export function borrowedBench(number: number, { executable, sanity }: Equipment): Bench {
  let equipped = false;
  return {
    async guest() {
      const ssh = sshToRunning(await chosenGuest(number));
      if (!equipped) await equip(ssh, executable, sanity);
      equipped = true;
      return { number, ssh };
    },
    async clear() {},
  };
}

/** A guest of the tests' own, which ends with this process however that ends. */
export function ownBench({ executable, sanity }: Equipment): Bench {
  let current: Guest | undefined;
  return {
    async guest() {
      if (current !== undefined) return current;
      current = await up({ tethered: true });
      await equip(current.ssh, executable, sanity);
      return current;
    },
    async clear() {
      const running = current && (await runningGuest(current.number));
      current = undefined;
      if (running) await down(running);
    },
  };
}
