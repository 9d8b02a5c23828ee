import type { Double } from "../../tests/fakes/truenas/double.ts";

/**
 * What democratic-csi's API drivers ask a TrueNAS for, one request after the other, told from their sources: the same operations
 * on the same double, over REST.
 */

/** Sends one request; answers what came. */
type Send = (method: string, path: string, body?: unknown) => Promise<Readonly<Record<string, unknown>>>;

const senderOn =
  ({ port }: Double): Send =>
  async (method, path, body) => {
    const headers = { Authorization: "Bearer 1-secret", "Content-Type": "application/json" };
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const response = await fetch(`http://127.0.0.1:${port}/api/v2.0${path}`, init);
    return (await response.json().catch(() => ({}))) as Readonly<Record<string, unknown>>;
  };

const gib = 1024 ** 3;
const parent = "tank/peer";

/** The operations on one volume of one protocol. */
export interface Peer {
  create(name: string): Promise<void>;
  delete(name: string): Promise<void>;
  snapshot(name: string, snapshot: string): Promise<void>;
}

const item = (name: string): string => `/pool/dataset/id/${encodeURIComponent(`${parent}/${name}`)}`;
const property = (key: string, value: unknown) => ({
  user_properties_update: [{ key: `democratic-csi:${key}`, value: String(value) }],
});

const marks = (name: string) => [
  { key: "democratic-csi:managed_resource", value: "true" },
  { key: "democratic-csi:csi_volume_name", value: name },
];

function snapshots(send: Send): Peer["snapshot"] {
  return async (name, snapshot) => {
    // Whether another volume has a snapshot of this name: all detached ones, then all volumes with theirs.
    await send("GET", `/pool/dataset/id/${encodeURIComponent("tank/peer-snapshots")}?extra.snapshots=true`);
    await send("GET", `/pool/dataset/id/${encodeURIComponent(parent)}?extra.snapshots=true`);
    const properties = { "democratic-csi:csi_snapshot_name": snapshot, "democratic-csi:managed_resource": "true" };
    await send("POST", "/pool/snapshot", { dataset: `${parent}/${name}`, name: snapshot, properties });
    const id = encodeURIComponent(`${parent}/${name}@${snapshot}`);
    await send("GET", `/pool/snapshot/id/${id}`);
    await send("PUT", `/pool/snapshot/id/${id}`, property("provision_success", true));
  };
}

/** File systems over NFS. */
export function nfsPeer(double: Double): Peer {
  const send = senderOn(double);
  const ids = new Map<string, unknown>();
  return {
    async create(name) {
      const dataset = `${parent}/${name}`;
      await send("GET", item(name));
      const fields = { name: dataset, type: "FILESYSTEM", create_ancestors: true, user_properties: marks(name) };
      await send("POST", "/pool/dataset", fields);
      await send("PUT", item(name), { refquota: gib });
      await send("GET", item(name));
      await send("GET", item(name));
      const share = await send("POST", "/sharing/nfs", { path: `/mnt/${dataset}` });
      ids.set(name, share["id"]);
      await send("PUT", item(name), property("freenas_nfs_share_id", share["id"]));
      await send("PUT", item(name), property("csi_share_volume_context", "{}"));
      await send("PUT", item(name), property("provision_success", true));
    },
    async delete(name) {
      await send("GET", `${item(name)}?extra.snapshots=true&extra.retrieve_children=false`);
      await send("GET", item(name));
      await send("GET", `/sharing/nfs/id/${ids.get(name)}`);
      await send("DELETE", `/sharing/nfs/id/${ids.get(name)}`);
      await send("PUT", item(name), property("freenas_nfs_share_id", "-"));
      await send("DELETE", item(name), { recursive: true, force: true });
    },
    snapshot: snapshots(send),
  };
}

/** Block devices over iSCSI. */
export function iscsiPeer(double: Double): Peer {
  const send = senderOn(double);
  const ids = new Map<string, readonly unknown[]>();
  return {
    async create(name) {
      const dataset = `${parent}/${name}`;
      await send("GET", item(name));
      const size = { type: "VOLUME", volsize: gib, sparse: true };
      await send("POST", "/pool/dataset", {
        name: dataset,
        ...size,
        create_ancestors: true,
        user_properties: marks(name),
      });
      await send("PUT", item(name), { volsize: gib });
      await send("GET", "/iscsi/global");
      await send("GET", item(name));
      const target = await send("POST", "/iscsi/target", { name, groups: [{ portal: 1, initiator: 1 }] });
      await send("PUT", item(name), property("freenas_iscsi_target_id", target["id"]));
      const extent = await send("POST", "/iscsi/extent", { name, type: "DISK", disk: `zvol/${dataset}` });
      await send("PUT", item(name), property("freenas_iscsi_extent_id", extent["id"]));
      const link = { target: target["id"], extent: extent["id"], lunid: 0 };
      const { id } = await send("POST", "/iscsi/targetextent", link);
      await send("PUT", item(name), property("freenas_iscsi_targettoextent_id", id));
      await send("PUT", item(name), property("freenas_iscsi_assets_name", name));
      await send("PUT", item(name), property("csi_share_volume_context", "{}"));
      await send("PUT", item(name), property("provision_success", true));
      ids.set(name, [target["id"], extent["id"]]);
    },
    async delete(name) {
      await send("GET", `${item(name)}?extra.snapshots=true&extra.retrieve_children=false`);
      await send("GET", item(name));
      for (const [at, kind] of ["target", "extent"].entries()) {
        const path = `/iscsi/${kind}/id/${ids.get(name)?.[at]}`;
        await send("GET", path);
        await send("DELETE", path);
        await send("PUT", item(name), property(`freenas_iscsi_${kind}_id`, "-"));
      }
      await send("DELETE", item(name), { recursive: true, force: true });
    },
    snapshot: snapshots(send),
  };
}

/** All volumes in one request, with everything that is known of them. */
export async function listPeer(double: Double): Promise<void> {
  await senderOn(double)("GET", `/pool/dataset/id/${encodeURIComponent(parent)}`);
}
