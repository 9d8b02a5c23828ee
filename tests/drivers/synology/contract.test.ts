import { driverContract } from "../../contract/driver.ts";
import { shareContract } from "../../contract/share.ts";
import { storeContract } from "../../contract/store.ts";
import { startDsm } from "../../fakes/dsm/double.ts";
import { type DsmOptions, dsmRig, mortalAccount, partsOf } from "./dsm-rig.ts";

const lacks = {
  "loss of power": "DSM answers for its own disks",
  "snapshots survive their volume": "DSM removes them with their LUN",
  modify: "DSM changes nothing of a LUN in use that classes could want",
  groupSnapshots: "DSM takes snapshots of one LUN",
};

driverContract("synology-iscsi on DSM 7", () => dsmRig(), lacks);
driverContract("synology-iscsi on DSM 6", () => dsmRig({ version: 6, http: { serialize: true } }), lacks);

async function partsRig(options: DsmOptions = {}) {
  const dsm = await startDsm(options.version);
  const opened: ReturnType<typeof partsOf>[] = [];
  const open = (more: DsmOptions = options) => {
    const parts = partsOf(dsm, more);
    opened.push(parts);
    return parts;
  };
  return {
    open: () => open(),
    dying(step: number, when: "before" | "after") {
      const { http, dead } = mortalAccount(dsm, step, when);
      return { ...open({ ...options, http }), dead };
    },
    remains: async () => dsm.state.remains(),
    async close() {
      await Promise.all(opened.map(({ store }) => store.close?.()));
      await dsm.close();
    },
  };
}

storeContract(
  "lunStore",
  async () => {
    const rig = await partsRig({ identity: { maxIdBytes: 100 } });
    return { ...rig, open: () => rig.open().store };
  },
  { "loss of power": lacks["loss of power"], notes: "the name of a LUN says all" },
);

shareContract("lunTargets", () => partsRig());
