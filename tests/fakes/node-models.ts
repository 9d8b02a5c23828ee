import { FakeHost as Initiator, iqn } from "../node/iscsi/fake-host.ts";
import { FakeHost as Fabric, nqn } from "../node/nvme/fake-host.ts";
import type { InitiatorHost } from "./iscsi-cases.ts";
import type { FabricHost } from "./nvme-cases.ts";

/** Passes the model of a node with open-iscsi to `work`. */
export async function modelInitiator<T>(work: (host: InitiatorHost) => Promise<T>): Promise<T> {
  using fake = new Initiator("10.0.0.1:3260");
  return await work({
    runner: fake,
    root: fake.root,
    iqn,
    portal: "10.0.0.1:3260",
    iface: "eth1",
    closed: "10.0.0.1:3299",
    async require(credentials) {
      fake.credentials = credentials;
    },
    async resize(mebibytes) {
      fake.luns.set("0", { wwid: "naa.0", mebibytes });
    },
  });
}

/** Passes the model of a node with NVMe over TCP to `work`. */
export async function modelFabric<T>(work: (host: FabricHost) => Promise<T>): Promise<T> {
  using fake = new Fabric("10.0.0.1:4420");
  return await work({
    runner: fake,
    root: fake.root,
    nqn,
    port: "10.0.0.1:4420",
    closed: "10.0.0.1:4499",
    async resize(mebibytes) {
      fake.namespaces.set("1", mebibytes);
    },
    async second(isThere) {
      if (isThere) fake.namespaces.set("2", 8);
      else fake.namespaces.delete("2");
    },
  });
}
