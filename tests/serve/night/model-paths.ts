import { join } from "node:path";
import { usualPaths } from "../../../lib/drivers/zfs/targets/open-targets.ts";

// The targets of the host are those of the model (tests/fakes/configfs.py) in this folder.

const folder = process.env["MODELLED_HOST"] ?? "";

Object.assign(usualPaths, {
  lio: join(folder, "lio"),
  lioSaved: [join(folder, "lio-saveconfig.json")],
  lioLock: join(folder, "targetcli.lock"),
  blocks: join(folder, "blocks"),
  udev: join(folder, "udev"),
  devices: join(folder, "dev"),
});
