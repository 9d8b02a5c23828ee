import { test } from "bun:test";
import { twoControllers } from "../../contract/two-controllers.ts";
import { dsmRig } from "./dsm-rig.ts";
import { folderRig } from "./folder-rig.ts";

const systems = [
  ["synology-iscsi", () => dsmRig()],
  ["synology-nfs", () => folderRig("nfs")],
] as const;

test.concurrent.each(systems)(
  "two controllers of one connection on one DSM agree on concurrent calls: %s",
  async (_name, open) => {
    const rig = await open();
    try {
      await twoControllers(rig, 3);
    } finally {
      await rig.close();
    }
  },
  120_000,
);
