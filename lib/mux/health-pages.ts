import type { Call } from "../core/call.ts";
import type { Page, PageRequest } from "../drivers/driver.ts";
import type { Condition } from "../health/condition-tracker.ts";
import { reasonText } from "../health/reasons.ts";
import type { Connection } from "./connection.ts";
import type { Handles } from "./handles.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import { badToken } from "./tokens.ts";

/** The health of volumes, and how their ids are written. */
export interface Sources {
  readonly health: HealthMonitor;
  readonly handles: Handles;
}

/** A volume with conditions; `id` is its handle. */
export interface UnhealthyVolume {
  readonly id: string;
  readonly conditions: readonly Condition[];
}

/**
 * Where a page of one connection begins: in its listing of volumes, all of which have the conditions of the storage system; among the
 * volumes with conditions of their own; or among the lost ones of these, which no listing shows.
 */
type Part = "listed" | "known" | "lost";
const parts: readonly Part[] = ["listed", "known", "lost"];
const letters: Readonly<Record<Part, string>> = { listed: "i", known: ">", lost: "x" };

/** One page of a connection's volumes with conditions. Throws why the storage system cannot be checked. */
export async function unhealthyPage(
  from: Sources,
  connection: Connection,
  page: PageRequest,
  call: Call,
): Promise<Page<UnhealthyVolume>> {
  await from.health.refresh(connection, call);
  const concernsAll = from.health.ofStorage(connection.name).length > 0 && connection.driver.inventory !== undefined;
  const { token } = page;
  const part = token === undefined ? parts[concernsAll ? 0 : 1] : parts.find(each => letters[each] === token[0]);
  if (part === undefined) throw badToken();
  const inner = token?.slice(1) ?? "";
  return part === "listed"
    ? listed(from, connection, { ...page, token: inner || undefined }, call)
    : known(from, connection, part, inner, page.max);
}

async function listed(from: Sources, connection: Connection, page: PageRequest, call: Call) {
  const found = await connection.driver.inventory?.list(page, call);
  const items = (found?.items ?? []).map(({ id }) => unhealthyVolume(from, connection, id));
  if (found?.next !== undefined) return { items, next: letters.listed + found.next };
  const lost = lostOn(from, connection);
  return { items, next: lost.length > 0 ? letters.lost : undefined };
}

function known(from: Sources, connection: Connection, part: "known" | "lost", after: string, max: number) {
  const all = part === "lost" ? lostOn(from, connection) : from.health.unhealthy(connection.name);
  const ids = all.filter(id => id > after);
  const items = ids.slice(0, max).map(id => unhealthyVolume(from, connection, id));
  return { items, next: ids.length > max ? letters[part] + (ids[max - 1] ?? "") : undefined };
}

const lostOn = ({ health }: Sources, { name }: Connection): readonly string[] =>
  health.unhealthy(name).filter(id => health.known(name, id).some(isLoss));

const isLoss = ({ reason }: Condition): boolean => reasonText(reason).severity === "data-loss";

const unhealthyVolume = ({ health, handles }: Sources, connection: Connection, id: string): UnhealthyVolume => ({
  id: handles.encode("volume", connection.name, id),
  conditions: health.known(connection.name, id),
});
