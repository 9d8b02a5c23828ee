import type { Driver } from "../../lib/drivers/driver.ts";
import { attacherContract } from "../contract/attacher.ts";
import { driverContract } from "../contract/driver.ts";
import type { DriverRig, Foreign } from "../contract/rig.ts";
import { shareContract } from "../contract/share.ts";
import { counted, mortal } from "../contract/steps.ts";
import { storeContract } from "../contract/store.ts";
import { ToyAttacher, ToyNode } from "./attacher.ts";
import { type ToyKind, toyDriver, toyFacts } from "./module.ts";
import { ToyTargetShare } from "./shares.ts";
import { alive, roomy, type Step, ToyStorage } from "./storage.ts";
import { ToyStore } from "./store.ts";

/** What a person can make by hand on the storage. */
const foreignOn = (storage: ToyStorage): readonly Foreign[] => [
  {
    what: "a volume by hand",
    place: "volume",
    async make({ id, bytes }) {
      storage.volumes.set(id, { id, bytes, source: undefined, foreign: true });
      return async () => storage.volumes.get(id);
    },
  },
  {
    what: "a target by hand",
    place: "way",
    async make({ id }) {
      storage.targets.set(`iqn.toy:${id}`, "theirs");
      return async () => storage.targets.get(`iqn.toy:${id}`);
    },
  },
  {
    what: "a snapshot by hand",
    place: "snapshot",
    async make({ id: volumeId, bytes }, id) {
      storage.snapshots.set(id, {
        id,
        name: "snap",
        volumeId,
        bytes,
        createdAt: new Date(),
        content: "theirs",
        foreign: true,
      });
      return async () => storage.snapshots.get(id);
    },
  },
];

/** The id of a volume is its key on the storage. */
function toyRig(kind: ToyKind): DriverRig {
  const storage = new ToyStorage();
  const open = (step?: Parameters<typeof toyDriver>[2]): Driver => toyDriver(kind, storage, step);
  return {
    facts: toyFacts(kind),
    open: () => open(),
    dying(last, when) {
      const { step, dead } = mortal(last, when);
      return { driver: open(step), dead };
    },
    after: before => open(roomy(counted(before))),
    foreign: foreignOn(storage),
    write: async ({ id }, content) => {
      const volume = storage.volumes.get(id);
      if (volume) storage.volumes.set(id, { ...volume, content });
    },
    async read({ id }) {
      const { content, notes } = storage.volumes.get(id) ?? {};
      const isReachable = kind === "toy-folder" || storage.targets.get(notes?.["target"] ?? "") === id;
      return isReachable ? content : "out of reach";
    },
    properties: { good: { speed: "fast" }, bad: [{ speed: "wrong" }, { colour: "red" }] },
    hostileSnapshots: [],
    remains: async () => storage.remains(),
    state: async () => storage.remains(),
    close: async () => undefined,
  };
}

const lacks = {
  "snapshots survive their volume": "a snapshot is a part of its volume",
  kept: "clones are copies",
  "loss of power": "all of it is in memory",
};

for (const kind of ["toy-folder", "toy-target"] as const) driverContract(kind, async () => toyRig(kind), lacks);

storeContract(
  "ToyStore",
  async () => {
    const storage = new ToyStorage();
    return {
      open: () => new ToyStore(storage, alive, 100),
      dying(last, when) {
        const { step, dead } = mortal(last, when);
        return { store: new ToyStore(storage, step, 100), dead };
      },
      remains: async () => storage.remains(),
      close: async () => undefined,
    };
  },
  { "loss of power": lacks["loss of power"] },
);

shareContract("ToyTargetShare", async () => {
  const storage = new ToyStorage();
  const parts = (step: Step) => ({
    store: new ToyStore(storage, step, 100),
    share: new ToyTargetShare(storage, step),
  });
  return {
    open: () => parts(alive),
    dying(last, when) {
      const { step, dead } = mortal(last, when);
      return { ...parts(step), dead };
    },
    remains: async () => storage.remains(),
    close: async () => undefined,
  };
});

attacherContract("ToyAttacher", async () => {
  const node = new ToyNode();
  return {
    open: () => new ToyAttacher(node, alive),
    dying(last, when) {
      const { step, dead } = mortal(last, when);
      return { attacher: new ToyAttacher(node, step), dead };
    },
    volumes: [
      { iqn: "iqn.toy:t", lun: "0" },
      { iqn: "iqn.toy:t", lun: "1" },
    ],
    absent: { iqn: "iqn.toy:t", lun: "absent" },
    incomplete: [{}, { iqn: "iqn.toy:t" }, { lun: "0" }],
    remains: async () => node.remains(),
    close: async () => undefined,
  };
});
