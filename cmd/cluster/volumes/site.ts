import { mkdtemp, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Call } from "../../../lib/core/call.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import { leveledLog } from "../../../lib/core/log.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import { MainFile } from "../../../lib/daemon/main-file.ts";
import type { Connection } from "../../../lib/mux/connection.ts";
import type { Connections } from "../../../lib/mux/connections.ts";
import { Groups } from "../../../lib/mux/groups.ts";
import { Handles, type RoutedVolume } from "../../../lib/mux/handles.ts";
import { everything } from "../../../lib/mux/inventory.ts";
import { askStatus } from "../../../lib/observe/status-socket.ts";
import { openConnections } from "../../connections.ts";
import { type Host, isFolder, valueResolver } from "../../host.ts";
import { ownNode } from "../../serve/node-info.ts";
import { defaults } from "../../serve/options.ts";
import { statusOptions } from "../../status/options.ts";
import { socketOf } from "../../status/status.ts";
import { milliseconds, UsageError } from "../../terminal/terminal.ts";
import { type Duplicate, duplicatesOf, type MemberListing } from "./duplicates.ts";
import type { VolumesFlags } from "./flags.ts";

/** How many connections are asked at once. */
export const atOnce = 8;

/** A volume of a connection: `own` is the driver's id, `id` the handle. */
export interface SiteVolume extends RoutedVolume {
  readonly own: string;
}

/** The volumes of a connection, or in words why they are unknown. */
export interface Listed {
  readonly name: string;
  readonly volumes: readonly SiteVolume[];
  readonly problem: string | undefined;
  /** The driver has no listing, which is not a failure. */
  readonly isUnlisted: boolean;
  /** `deleteStrategy: retain` */
  readonly retain: boolean;
}

/** The answer of a connection, or in words why there is none. */
export type Answered<T> = { readonly answer: T } | { readonly problem: string };

/** The connections of a main file, opened by this process as by `csimux serve`. */
export interface Site {
  /** The driver name. */
  readonly name: string;
  readonly connections: Connections;
  readonly handles: Handles;
  /** All connections, and the volumes that have the name of one on another member of their group. */
  list(): Promise<{ readonly listed: readonly Listed[]; readonly duplicates: readonly Duplicate[] }>;
  /** A call with the time limit of one connection. */
  call(): Call;
  /** Asks one connection; or why that failed, in words. */
  ask<T>(name: string, work: (connection: Connection, call: Call) => Promise<T>): Promise<Answered<T>>;
  close(): Promise<void>;
}

/** The main file and driver name of the flags, or of the running csimux. Throws UsageError. */
async function mainOf({ config, name, endpoint, timeout }: VolumesFlags, host: Host) {
  if (config !== undefined) return { config, name: name ?? defaults.name };
  const status = statusOptions({ output: "json", timeout, ...(endpoint !== undefined && { endpoint }) }, host.env);
  try {
    const running = await askStatus(socketOf(status), 10_000);
    return { config: running.details.config, name: name ?? running.name };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    throw new UsageError(`give the main file with --config, because no running csimux can be asked: ${error.message}`);
  }
}

/** Opens the connections of the flags' main file. Throws UsageError, and CsiError for a main file that cannot be used. */
export async function openSite(flags: VolumesFlags, host: Host): Promise<Site> {
  const limitMs = milliseconds("--timeout", flags.timeout);
  const { config, name } = await mainOf(flags, host);
  const log = leveledLog("error", () => {});
  const resolver = valueResolver(host.env);
  const main = await MainFile.load(config, resolver, log);
  const { single, legacyConnection } = main.config;
  const { ownSegments } = await ownNode(main.config, host.env["CSI_NODE_ID"] || undefined, host, log);
  // Shares are mounted apart from those of a running csimux, which must not lose them at the end of this command.
  const shares = await mkdtemp(join(tmpdir(), "csimux-volumes-")).catch(() => undefined);
  const knownHosts = join("/var/lib/csimux", name, "known-hosts");
  const folders = { ...(shares !== undefined && { shares }), ...(isFolder(knownHosts) && { knownHosts }) };
  const opened = openConnections({ host, main, resolver, ownSegments, folders, tell: () => {}, log });
  const { connections } = opened;
  const handles = new Handles(
    () => legacyConnection ?? single,
    () => single,
  );
  const call = (): Call => ({ id: "volumes", signal: AbortSignal.timeout(limitMs), log, secrets: {} });
  const close = async () => {
    await connections.close();
    await opened.close();
    // Not recursively: a share that could not be unmounted keeps its content.
    if (shares !== undefined) await rmdir(shares).catch(() => {});
  };
  const ask: Site["ask"] = (each, work) => asked(each, connections, call(), limitMs, work);
  const list = async () => {
    const pairs = await mapLimit(await connections.names(), atOnce, each => listed(each, ask, handles));
    const members = new Map(pairs.flatMap(({ member }) => (member ? [[member.member, member] as const] : [])));
    const groups = new Groups(connections, opened.configured);
    const duplicates: Duplicate[] = [];
    for (const group of await groups.names())
      duplicates.push(...duplicatesOf((await groups.members(group)).flatMap(each => members.get(each) ?? [])));
    return { listed: pairs.map(({ listing }) => listing), duplicates };
  };
  return { name, connections, handles, list, call, ask, close };
}

async function listed(
  name: string,
  ask: Site["ask"],
  handles: Handles,
): Promise<{ readonly listing: Listed; readonly member?: MemberListing }> {
  const none = { name, volumes: [], isUnlisted: false, retain: false };
  const asked = await ask(name, async (connection, call) => {
    const { driver, driverName, retain } = connection;
    const { items, able } = await everything(page => driver.inventory?.list(page, call));
    if (!able)
      return { listing: { ...none, isUnlisted: true, problem: `the driver ${driverName} cannot list its volumes` } };
    const volumes = items.map(each => ({ ...handles.volume(connection, each), own: each.id }));
    const ids = new Set(volumes.map(each => each.own));
    const member = { member: name, ids, idOf: (text: string) => driver.names?.idOf(text) ?? text };
    return { listing: { ...none, volumes, problem: undefined, retain }, member };
  });
  return "answer" in asked ? asked.answer : { listing: { ...none, problem: asked.problem } };
}

async function asked<T>(
  name: string,
  connections: Connections,
  call: Call,
  limitMs: number,
  work: (connection: Connection, call: Call) => Promise<T>,
): Promise<Answered<T>> {
  try {
    return { answer: await connections.use(name, "retry", connection => work(connection, call)) };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    if (call.signal.aborted) return { problem: `no answer within ${limitMs / 1000} s` };
    const head = `connection "${name}": `;
    return { problem: error.message.startsWith(head) ? error.message.slice(head.length) : error.message };
  }
}
