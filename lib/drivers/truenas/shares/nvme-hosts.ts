import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { createdOrFound, type ShareContext, type TableRow, tableOf } from "./share.ts";

/** Hosts that may connect to a subsystem, and the keys with which they prove themselves (NVMe Base Specification, DH-HMAC-CHAP). */

/** A host of a connection file. */
export interface NvmeHost {
  readonly hostnqn: string;
  readonly dhchapKey?: string | undefined;
  readonly dhchapCtrlKey?: string | undefined;
}

/** Lets the hosts connect to a subsystem. A host that TrueNAS knows already stays unchanged: others use it too. */
export async function linkHosts(
  context: ShareContext,
  hosts: readonly NvmeHost[],
  subsystem: TableRow,
  call: Call,
): Promise<void> {
  const links = tableOf(context, "nvmet.host_subsys", call);
  for (const each of hosts) {
    const host = await known(context, each, call);
    const find = async () => (await links.find(["host.id", "=", host.id], ["subsys.id", "=", subsystem.id]))[0];
    await createdOrFound(() => links.create({ host_id: host.id, subsys_id: subsystem.id }), find);
  }
}

/** Throws "failed-precondition" if TrueNAS knows a host with other keys than the file. */
export async function checkHosts(context: ShareContext, hosts: readonly NvmeHost[], call: Call): Promise<void> {
  if (hosts.length === 0) return;
  const rows = await tableOf(context, "nvmet.host", call).find();
  for (const host of hosts) {
    const row = rows.find(each => each["hostnqn"] === host.hostnqn);
    if (row) refuseOtherKeys(context, host, row);
  }
}

async function known(context: ShareContext, host: NvmeHost, call: Call): Promise<TableRow> {
  const hosts = tableOf(context, "nvmet.host", call);
  const find = async () => (await hosts.find(["hostnqn", "=", host.hostnqn]))[0];
  const { hostnqn, dhchapKey, dhchapCtrlKey } = host;
  const keys = {
    ...(dhchapKey && { dhchap_key: dhchapKey }),
    ...(dhchapCtrlKey && { dhchap_ctrl_key: dhchapCtrlKey }),
  };
  const row = (await find()) ?? (await createdOrFound(() => hosts.create({ hostnqn, ...keys }), find)).row;
  refuseOtherKeys(context, host, row);
  return row;
}

/** An account that may not change keys gets stars instead, which cannot be compared. */
function refuseOtherKeys(context: ShareContext, { hostnqn, dhchapKey, dhchapCtrlKey }: NvmeHost, row: TableRow): void {
  const differs = (mine: string | undefined, theirs: unknown): boolean =>
    (mine ?? "") !== (theirs ?? "") && !/^\*+$/.test(String(theirs));
  if (!differs(dhchapKey, row["dhchap_key"]) && !differs(dhchapCtrlKey, row["dhchap_ctrl_key"])) return;
  throw new CsiError(
    "failed-precondition",
    `connection "${context.connection}": TrueNAS knows the host ${hostnqn} with other keys than the connection file: change one of them`,
  );
}
