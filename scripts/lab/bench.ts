import { equip } from "./equipment.ts";
import { down, type Guest, sshToRunning, up } from "./guest.ts";
import { chosenGuest, runningGuest } from "./guests.ts";

/** Programs that tests need in a guest. */
export interface Equipment {
  /** The path of the compiled csimux. */
  readonly executable: string;
  /** The path of csi-sanity; undefined if it could not be built. */
  readonly sanity: string | undefined;
}

/** A guest that is started and equipped on first use. */
interface Seat {
  guest(): Promise<Guest>;
  /** Ends the guest unless it is borrowed; the next one is fresh. */
  clear(): Promise<void>;
}

/** The guests of a test run. */
export interface Bench {
  /** The guest that runs the tests. */
  readonly first: Seat;
  /** A guest for tests that need a second machine; never borrowed. */
  readonly second: Seat;
}

/** A guest that was running before and keeps running. */
function borrowed(number: number, { executable, sanity }: Equipment): Seat {
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

/** A guest that ends with this process, however that ends. */
function own({ executable, sanity }: Equipment): Seat {
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

/** Two guests, not started yet. The first one can be a running guest. */
export const makeBench = (equipment: Equipment, number: number | undefined): Bench => ({
  first: number === undefined ? own(equipment) : borrowed(number, equipment),
  second: own(equipment),
});

/** Ends the guests that are not borrowed. */
export async function clearBench({ first, second }: Bench): Promise<void> {
  await Promise.all([first.clear(), second.clear()]);
}
