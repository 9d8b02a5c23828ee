import type { Call } from "../../lib/core/call.ts";
import type { Context, Driver, Found, Source, Volume, VolumeSpec } from "../../lib/drivers/driver.ts";

/** A driver that ends like a killed process: at one of its steps, and from then on every step fails. */
export interface Dying {
  readonly driver: Driver;
  /** Whether it got to that step. */
  dead(): boolean;
}

/** One storage, empty at first, and drivers on it. */
export interface DriverRig {
  /** A new driver on the same storage, as after a restart. */
  open(): Driver;
  /** A driver that ends at its n-th step, counted from 1: before the step takes effect, or just after. */
  dying(step: number, when: "before" | "after"): Dying;
  write(volume: Volume, text: string): Promise<void>;
  read(volume: Volume): Promise<string | undefined>;
  /** Properties that can be changed, and some that cannot; undefined where none can. */
  readonly properties?: { readonly good: Context; readonly bad: readonly Context[] };
  /** Ids in this family's own form that no snapshot can have. */
  readonly hostileSnapshots: readonly string[];
  /** What is left on the storage, in words; empty when nothing is. The name of a volume stands in what is its. */
  remains(): Promise<readonly string[]>;
  close(): Promise<void>;
}

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const log: Call["log"] = { ...silent, with: () => log };

/** A call that nobody cancels, unless a signal is given. */
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
  capabilities: [
    { kind: "mount", fsType: undefined, mountFlags: [], mountGroup: undefined, mode: "single-node-writer" },
  ],
  topology: { requisite: [], preferred: [] },
  mutable: {},
});

/** The volume of a driver that must be able to read. */
export function getVolume(driver: Driver, id: string): Promise<Volume> {
  if (!driver.reading) throw new Error("this driver cannot read a volume; skip the case");
  return driver.reading.get(id, callWith());
}

/** What stands under a name of a driver that must be able to look it up. */
async function lookUp(driver: Driver, name: string): Promise<Found | undefined> {
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
