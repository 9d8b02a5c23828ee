import type { Call } from "../core/call.ts";
import type { Page, PageRequest } from "../drivers/driver.ts";
import type { Condition } from "../health/condition-tracker.ts";
import { reasonText } from "../health/reasons.ts";
import type { Connection } from "./connection.ts";
import type { Handles } from "./handles.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import { everything } from "./inventory.ts";
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

/** Before the id after which a page begins. */
const mark = ">";

/** One page of a connection's volumes with conditions, in the order of their ids. Throws why the storage system cannot be checked. */
export async function unhealthyPage(
  { health, handles }: Sources,
  connection: Connection,
  { token = mark, max }: PageRequest,
  call: Call,
): Promise<Page<UnhealthyVolume>> {
  if (!token.startsWith(mark)) throw badToken();
  await health.refresh(connection, call);
  const { name, driver } = connection;
  const { inventory } = driver;
  const own = health.unhealthy(name);
  // All volumes have the conditions of the storage system; of those with their own, no listing shows the lost ones.
  const isAll = inventory !== undefined && health.ofStorage(name).length > 0;
  const listed = isAll ? (await everything(page => inventory.list(page, call))).items.map(({ id }) => id) : own;
  const lost = own.filter(id => health.known(name, id).some(isLoss));
  const ids = [...new Set([...listed, ...lost])].sort().filter(id => id > token.slice(mark.length));
  const items = ids.slice(0, max).map(id => ({
    id: handles.encode("volume", name, id),
    conditions: health.known(name, id),
  }));
  return { items, next: ids.length > max ? mark + (ids[max - 1] ?? "") : undefined };
}

const isLoss = ({ reason }: Condition): boolean => reasonText(reason).severity === "data-loss";
