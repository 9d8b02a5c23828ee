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

/** A place for a guest: started and equipped when somebody first asks for it. */
interface Seat {
  guest(): Promise<Guest>;
  /** Ends the guest if it is our own; the next one is fresh. */
  clear(): Promise<void>;
}

/** Where tests run. */
export interface Bench {
  /** The guest that tests run in. */
  readonly first: Seat;
  /** Another guest for tests that need a second machine. Always our own. */
  readonly second: Seat;
}

/** A guest that was up before and stays up, whatever the tests do to it. */
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

/** A guest of the tests' own, which ends with this process however that ends. */
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

/** Places for two guests, none of them started yet. The first may be one that is up. */
export const makeBench = (equipment: Equipment, number: number | undefined): Bench => ({
  first: number === undefined ? own(equipment) : borrowed(number, equipment),
  second: own(equipment),
});

/** Ends the guests that are the bench's own. */
export async function clearBench({ first, second }: Bench): Promise<void> {
  await Promise.all([first.clear(), second.clear()]);
}
