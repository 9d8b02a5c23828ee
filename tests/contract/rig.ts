import type { Call } from "../../lib/core/call.ts";
import type { Context, Driver, FoundVolume, Source, Volume, VolumeSpec } from "../../lib/drivers/driver.ts";
import type { DriverFacts } from "../../lib/drivers/facts.ts";
import type { Before } from "./steps.ts";

/** A driver that ends like a killed process: at one of its steps, and from then on every step fails. */
export interface Dying {
  readonly driver: Driver;
  /** Whether it got to that step. */
  dead(): boolean;
}

/** Something that a person made by hand in the very place that the driver would use. */
export interface Foreign {
  /** What it is, such as "a zvol". */
  readonly what: string;
  /**
   * What it replaces: the volume itself, its share or target ("way"), or a snapshot. Only a share or target can exist together with a new
   * volume.
   */
  readonly place: "volume" | "way" | "snapshot";
  /** Why reading it as a volume is correct anyway: a predecessor's volumes look like it. It is never changed or removed. */
  readonly readable?: string;
  /**
   * Creates it, after the driver has created `volume` (and the snapshot) and has deleted what the object replaces. Returns a function that
   * reads everything about the object, which must stay equal.
   */
  make(volume: Volume, snapshot: string): Promise<() => Promise<unknown>>;
}

/** One storage, empty at first, and drivers on it. */
export interface DriverRig {
  /** What the driver's module says without opening it. */
  readonly facts: DriverFacts;
  /** A new driver on the same storage, as after a restart. */
  open(): Driver;
  /** A driver that ends at its n-th step, counted from 1: before the step takes effect, or just after. */
  dying(step: number, when: "before" | "after"): Dying;
  /** A driver before each of whose steps something happens, or in place of which it finds the storage full. */
  after(before: Before): Driver;
  /** Whether a step, by what `after` says about it, can be the one that reads a volume or snapshot. By default it names the object. */
  reads?(about: string): boolean;
  /** What may be left of a volume that one controller deletes while another shares it, without data; it is in the limits of the driver. */
  readonly abandoned?: RegExp;
  /**
   * Whether the storage accepts no condition for a step, and the one before has proved what it changes: what happens between the two is in the
   * limits of the driver.
   */
  unconditional?(about: string, before: string): boolean;
  /** What people make by hand here; none where csimux cannot tell it from a volume, which the limits of the driver say. */
  readonly foreign: readonly Foreign[];
  /** The machine loses power: what was not put on stable storage is gone. Absent where the storage answers for that itself. */
  losePower?(): Promise<void>;
  write(volume: Volume, text: string): Promise<void>;
  /** Undefined where nothing was written, also on a disk full of zeros. */
  read(volume: Volume): Promise<string | undefined>;
  /** Properties that can be changed, and some that cannot; undefined where none can. */
  readonly properties?: { readonly good: Context; readonly bad: readonly Context[] };
  /** Ids in this family's own form that no snapshot can have. */
  readonly hostileSnapshots: readonly string[];
  /** Descriptions of what is left on the storage; empty if nothing is. Descriptions of a volume's parts contain its name. */
  remains(): Promise<readonly string[]>;
  /** Everything on the storage, in a form that differs after any change. */
  state(): Promise<unknown>;
  /** Removes the marks of a volume and leaves all else, as if a person had made it. Absent where volumes need no marks. */
  unmark?(volume: Volume): Promise<void>;
  close(): Promise<void>;
}

/** A driver of which one step fails, counted from 1, and no other: the storage has no room for it, says so, and has done nothing. */
export function failing(rig: DriverRig, at: number): { readonly driver: Driver; failed(): boolean } {
  let isOver = false;
  const driver = rig.after(step => {
    isOver ||= step >= at;
    return step === at ? "full" : "run";
  });
  return { driver, failed: () => isOver };
}

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const log: Call["log"] = { ...silent, with: () => log };

/** A call that is not cancelled, unless a signal is given. */
export const callWith = (signal: AbortSignal = new AbortController().signal): Call => ({
  id: "test",
  signal,
  log,
  secrets: {},
});

export const gib = 1n << 30n;

/** A request for a volume of exactly this size. */
export const volumeOf = (name: string, bytes: bigint = gib, source?: Source): VolumeSpec => ({
  name,
  range: { required: bytes, limit: bytes },
  parameters: {},
  source,
  mutable: {},
});

/** The volume of a driver that must be able to read. */
export function getVolume(driver: Driver, id: string): Promise<Volume> {
  if (!driver.reading) throw new Error("this driver cannot read a volume; skip the case");
  return driver.reading.get(id, callWith());
}

/** What exists under a name, for a driver that must be able to look it up. */
async function lookUp(driver: Driver, name: string): Promise<FoundVolume | undefined> {
  if (!driver.names) throw new Error("this driver cannot look up a name; skip the case");
  return driver.names.find(name, callWith());
}

export async function findVolume(driver: Driver, name: string): Promise<Volume | undefined> {
  const what = await lookUp(driver, name);
  return what?.kind === "volume" ? what.volume : undefined;
}

/** The id under which an interrupted creation of this name left something. */
export async function leftoverOf(driver: Driver, name: string): Promise<string | undefined> {
  const what = await lookUp(driver, name);
  return what?.kind === "unfinished" ? what.id : undefined;
}

/** The snapshots of a driver that must have them. */
export function snapshotsOf(driver: Driver): NonNullable<Driver["snapshots"]> {
  if (!driver.snapshots) throw new Error("this driver has no snapshots; skip the case");
  return driver.snapshots;
}

export async function volumeIds(driver: Driver, max = 1000): Promise<readonly string[]> {
  const page = await driver.inventory?.list({ token: undefined, max }, callWith());
  return page?.items.map(({ id }) => id) ?? [];
}

export async function snapshotIds(driver: Driver, volumeId?: string): Promise<readonly string[]> {
  const page = await snapshotsOf(driver).list({ volumeId }, { token: undefined, max: 1000 }, callWith());
  return page.items.map(({ id }) => id);
}

/** What an inspection finds wrong with the storage, and with each volume. */
export async function reasonsOf(driver: Driver): Promise<Readonly<Record<string, readonly string[]>>> {
  const found = await driver.health?.look(callWith());
  const entries = [["storage", found?.storage ?? []] as const, ...(found?.volumes ?? [])];
  return Object.fromEntries(
    entries.flatMap(([id, all]) => (all.length > 0 ? [[id, all.map(({ reason }) => reason)]] : [])),
  );
}

/** Texts that no driver gives as an id. */
export const hostileIds: readonly string[] = [
  "",
  ".",
  "..",
  "../v",
  "a/b",
  "/etc",
  "-rf",
  ".hidden",
  "a\0b",
  "a\nb",
  "..\\x",
  "x".repeat(300),
  "%2e%2e",
  "é",
];
