import { localFiles } from "../../../lib/io/files.ts";
import { driverContract } from "../../contract/driver.ts";
import { storeRig } from "../../contract/parts.ts";
import { storeContract } from "../../contract/store.ts";
import { sampled } from "../../sample.ts";
import { directoryRig } from "./directory-rig.ts";

const lacks = {
  "snapshots hold their volume": "snapshots are copies",
  modify: "folders have no properties",
  kept: "copies need nothing",
  groupSnapshots: "copies are not made at one moment",
};

const drivers = [
  { title: "local-hostpath", open: () => directoryRig() },
  {
    title: "local-hostpath with mode and owner",
    open: () => directoryRig({ settings: { mode: 0o2770, user: 0, group: "0" } }),
  },
  {
    title: "nfs-client",
    open: () =>
      directoryRig({ kind: "nfs-client", files: localFiles, settings: { requireMount: false, shareHost: "nas" } }),
  },
];
for (const { title, open } of sampled(drivers, each => each === drivers[0])) driverContract(title, open, lacks);

storeContract("StorePerOperation", async () => storeRig(await directoryRig()), { notes: "the share needs none" });
