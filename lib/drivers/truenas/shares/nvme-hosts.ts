import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { type Row, type ShareContext, tableOf, unique } from "./share.ts";

/** Hosts that may connect to a subsystem, and the keys with which they prove themselves (NVMe Base Specification, DH-HMAC-CHAP). */

/** A host of a connection file. */
export interface NvmeHost {
  readonly hostnqn: string;
  readonly dhchapKey?: string | undefined;
  readonly dhchapCtrlKey?: string | undefined;
}

/** Lets the hosts connect to a subsystem. One that TrueNAS knows already stays as it is, for others use it, too. */
export async function linkHosts(
  site: ShareContext,
  hosts: readonly NvmeHost[],
  subsystem: Row,
  call: Call,
): Promise<void> {
  const links = tableOf(site, "nvmet.host_subsys", call);
  for (const each of hosts) {
    const host = await known(site, each, call);
    const find = async () => (await links.find(["host.id", "=", host.id], ["subsys.id", "=", subsystem.id]))[0];
    await unique(() => links.make({ host_id: host.id, subsys_id: subsystem.id }), find);
  }
}

/** Throws "failed-precondition" when TrueNAS knows a host with other keys than the file. */
export async function checkHosts(site: ShareContext, hosts: readonly NvmeHost[], call: Call): Promise<void> {
  if (hosts.length === 0) return;
  const rows = await tableOf(site, "nvmet.host", call).find();
  for (const host of hosts) {
    const row = rows.find(each => each["hostnqn"] === host.hostnqn);
    if (row) refuseOtherKeys(site, host, row);
  }
}

async function known(site: ShareContext, host: NvmeHost, call: Call): Promise<Row> {
  const hosts = tableOf(site, "nvmet.host", call);
  const find = async () => (await hosts.find(["hostnqn", "=", host.hostnqn]))[0];
  const { hostnqn, dhchapKey, dhchapCtrlKey } = host;
  const keys = {
    ...(dhchapKey && { dhchap_key: dhchapKey }),
    ...(dhchapCtrlKey && { dhchap_ctrl_key: dhchapCtrlKey }),
  };
  const row = (await find()) ?? (await unique(() => hosts.make({ hostnqn, ...keys }), find)).row;
  refuseOtherKeys(site, host, row);
  return row;
}

/** Keys are shown as stars to an account that may not change them; those cannot be compared. */
function refuseOtherKeys(site: ShareContext, { hostnqn, dhchapKey, dhchapCtrlKey }: NvmeHost, row: Row): void {
  const differs = (mine: string | undefined, theirs: unknown): boolean =>
    (mine ?? "") !== (theirs ?? "") && !/^\*+$/.test(String(theirs));
  if (!differs(dhchapKey, row["dhchap_key"]) && !differs(dhchapCtrlKey, row["dhchap_ctrl_key"])) return;
  throw new CsiError(
    "failed-precondition",
    `connection "${site.connection}": TrueNAS knows the host ${hostnqn} with other keys than the connection file: change one of them`,
  );
}
