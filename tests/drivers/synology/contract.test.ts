import { driverContract } from "../../contract/driver.ts";
import { shareContract } from "../../contract/share.ts";
import { storeContract } from "../../contract/store.ts";
import { drawn } from "../../sample.ts";
import { dsmRig, partsOf, partsRig } from "./dsm-rig.ts";

const lacks = {
  "loss of power": "DSM answers for its own disks",
  "snapshots survive their volume": "DSM removes them with their LUN",
  modify: "DSM changes nothing of a LUN in use that classes could want",
  kept: "DSM does not tell what shares data with a LUN",
  groupSnapshots: "DSM takes snapshots of one LUN",
};

const systems = [
  { title: "synology-iscsi on DSM 7", open: () => dsmRig() },
  { title: "synology-iscsi on DSM 6", open: () => dsmRig({ version: 6, http: { serialize: true } }) },
];
for (const { title, open } of drawn(systems, 1)) driverContract(title, open, lacks);

storeContract(
  "unitStore of LUNs",
  async () => {
    const rig = await partsRig(partsOf, { identity: { maxIdBytes: 100 } });
    return { ...rig, open: () => rig.open().store };
  },
  { "loss of power": lacks["loss of power"], notes: "the name of a LUN says all" },
);

shareContract("lunTargets", () => partsRig(partsOf));
