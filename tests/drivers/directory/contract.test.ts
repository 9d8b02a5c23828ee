import { localFiles } from "../../../lib/io/files.ts";
import { driverContract } from "../../contract/driver.ts";
import { storeRig } from "../../contract/parts.ts";
import { storeContract } from "../../contract/store.ts";
import { byName, directoryRig } from "./directory-rig.ts";

const lacks = {
  ...byName,
  "snapshots hold their volume": "snapshots are copies",
  modify: "folders have no properties",
  groupSnapshots: "copies are not made at one moment",
};

driverContract("local-hostpath", () => directoryRig(), lacks);

driverContract(
  "local-hostpath with mode and owner",
  () => directoryRig({ settings: { mode: 0o2770, user: 0, group: "0" } }),
  lacks,
);

driverContract(
  "nfs-client",
  () => directoryRig({ kind: "nfs-client", files: localFiles, settings: { requireMount: false, shareHost: "nas" } }),
  lacks,
);

storeContract("StorePerOperation", async () => storeRig(await directoryRig()), { notes: "the share needs none" });
