import { pooledFiles } from "../../../lib/drivers/directory/files.ts";
import { driverContract } from "../../contract/driver.ts";
import { directoryRig } from "./directory-rig.ts";

driverContract("local-hostpath", () => directoryRig());

driverContract("local-hostpath with mode and owner", () =>
  directoryRig({ settings: { mode: 0o2770, user: 0, group: "0" } }),
);

driverContract("nfs-client", () =>
  directoryRig({ kind: "nfs-client", files: pooledFiles, settings: { requireMount: false, shareHost: "nas" } }),
);
