import { FilesystemNames } from "../../../lib/drivers/objectivefs/names.ts";
import { OfsCli } from "../../../lib/drivers/objectivefs/ofs-cli.ts";
import { ObjectiveFsStore } from "../../../lib/drivers/objectivefs/store.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { driverContract } from "../../contract/driver.ts";
import { storeContract } from "../../contract/store.ts";
import { environment } from "../../fakes/mount-objectivefs.ts";
import { ofsRig, pool } from "./ofs-rig.ts";

const lacks = {
  "loss of power": "an object store answers for its own objects",
  expand: "the size is part of a file system's name, and nothing in an object store is bounded by it",
  snapshots: "mount.objectivefs takes them only where the file system is mounted",
  clones: "an object store copies no file systems",
  capacity: "an object store has no end",
  modify: "nothing of a file system can be changed from outside",
  kept: "no file system needs another one",
  groupSnapshots: "there are no snapshots",
};

driverContract("objectivefs", () => ofsRig(), lacks);

storeContract(
  "ObjectiveFsStore",
  async () => {
    const rig = await ofsRig();
    const store = (runner: CommandRunner) =>
      new ObjectiveFsStore(
        "c1",
        new FilesystemNames(["c1"], 120),
        new OfsCli(runner, { pool, sudo: false, env: environment }),
      );
    return {
      open: () => store(rig.runner),
      dying(step, when) {
        const { env, dead } = rig.fake.dying(step, when);
        const runner = localRunner({ env: { PATH: `${rig.fake.bin}:/usr/bin:/bin`, ...env } });
        return { store: store(runner), dead };
      },
      remains: rig.remains,
      close: rig.close,
    };
  },
  { "loss of power": lacks["loss of power"], notes: "the name of a file system says all" },
);
