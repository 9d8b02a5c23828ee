import type { CopyState } from "../copies/protocol.ts";
import type { Call } from "../core/call.ts";
import { messageOf } from "../core/errors.ts";
import { placeOf } from "../core/place.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Page, PageRequest } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";
import type { RouterContext } from "./context.ts";
import { connectionsAtOnce } from "./storage-calls.ts";

/** The most volumes, and the most snapshots, that are read from one connection: more do not fit the status page. */
const most = 10_000;

/** The size of the pages that a driver is asked for. */
const pageSize = 1_000;

/** A volume in an inventory. */
export interface InventoryVolume {
  /** Its handle. */
  readonly id: string;
  /** Like `placeOf`. */
  readonly place?: string | undefined;
  /** Its size in bytes; 0 if unknown. */
  readonly bytes: number;
  /** Undefined if the snapshots are unknown. */
  readonly snapshots: number | undefined;
}

/** A copy to a connection, as its record tells. Sizes are bytes; 0: unknown. */
export interface InventoryCopy extends Pick<CopyState, "target" | "source" | "role" | "state" | "method" | "fault"> {
  readonly done: number;
  readonly total: number;
  /** When it was last asked for, in seconds since 1970; 0: unknown. */
  readonly asked: number;
}

/** What one connection has, as far as it could be listed. */
export interface ConnectionInventory {
  readonly connection: string;
  readonly volumes: readonly InventoryVolume[];
  /** Copies from other connections, also those that nothing works on; absent if there are none. */
  readonly copies?: readonly InventoryCopy[] | undefined;
  /** Why this is not everything; undefined if it is. */
  readonly problem: string | undefined;
}

/**
 * The volumes of all connections with the number of their snapshots, and the copies to them, for people; updates the figures of the connections. Unlike a listing
 * of CSI, it does not fail if a connection cannot be listed, but says so. Throws "unavailable" if the folder of connection files cannot be
 * read.
 */
export async function inventory(context: RouterContext, call: Call): Promise<readonly ConnectionInventory[]> {
  const { single } = context.settings();
  const names = single === undefined ? await context.connections.names() : [single];
  return mapLimit(names, connectionsAtOnce, name => ofConnection(context, name, call));
}

async function ofConnection(
  { connections, calls, handles, copies }: RouterContext,
  name: string,
  call: Call,
): Promise<ConnectionInventory> {
  const read = <T>(list: (connection: Connection, page: PageRequest, call: Call) => Promise<Page<T>> | undefined) =>
    connections.useIfHealthy(name, connection =>
      calls.read("listing", connection, call, own => everything(page => list(connection, page, own), most)),
    );
  let problem: string | undefined;
  const failed = (what: string) => (error: unknown) => {
    problem ??= `the ${what} cannot be listed: ${messageOf(error)}`;
    return undefined;
  };
  const volumes = await read(({ driver }, page, own) => driver.inventory?.list(page, own)).catch(failed("volumes"));
  if (!volumes) return { connection: name, volumes: [], problem: problem ?? "its file has never been valid" };
  if (!volumes.able) return { connection: name, volumes: [], problem: "its driver cannot list volumes" };
  const record = connections.record(name);
  if (record && !volumes.more) record.figures.volumes = { value: volumes.items.length, at: Date.now() };
  // People look for it with the volumes; its failure shows in its age.
  await connections.useIfHealthy(name, each => calls.freeSpace(each, {}, call)).catch(() => {});
  const list = { volumeId: undefined };
  const recorded = () =>
    connections.useIfHealthy(name, connection =>
      calls.read("listing", connection, call, async own => connection.driver.copyTarget?.copies(own)),
    );
  const [snapshots, unfinished] = await Promise.all([
    read(({ driver }, page, own) => driver.snapshots?.list(list, page, own)).catch(failed("snapshots")),
    copies && recorded().catch(failed("copies")),
  ]);
  const counts = new Map<string, number>();
  for (const { volumeId } of snapshots?.items ?? []) counts.set(volumeId, (counts.get(volumeId) ?? 0) + 1);
  if (volumes.more) problem ??= `it has more than ${most} volumes`;
  if (snapshots?.more) problem ??= `it has more than ${most} snapshots`;
  return {
    connection: name,
    volumes: volumes.items.map(({ id, bytes, context }) => ({
      id: handles.encode("volume", name, id),
      place: placeOf(context),
      bytes: Number(bytes),
      snapshots: snapshots && !snapshots.more ? (counts.get(id) ?? 0) : undefined,
    })),
    ...(copies &&
      unfinished &&
      unfinished.length > 0 && { copies: unfinished.map(each => copyOf(copies.state(name, each))) }),
    problem,
  };
}

const copyOf = ({ target, source, role, state, method, fault, done, total, asked }: CopyState): InventoryCopy => ({
  ...{ target, source, role, state, method, fault, asked },
  ...{ done: Number(done), total: Number(total) },
});

/**
 * The items of all pages of a listing, until there are `limit` or more; `more`: whether it has others. Not `able`: the driver cannot list, so
 * `list` returned undefined.
 */
export async function everything<T>(
  list: (page: PageRequest) => Promise<Page<T>> | undefined,
  limit = Number.POSITIVE_INFINITY,
) {
  const items: T[] = [];
  let token: string | undefined;
  do {
    const page = await list({ token, max: pageSize });
    if (!page) return { items, more: false, able: false };
    items.push(...page.items);
    token = page.next;
  } while (token !== undefined && items.length < limit);
  return { items, more: token !== undefined, able: true };
}
