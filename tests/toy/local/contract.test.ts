import { mkdir, symlink, writeFile } from "node:fs/promises";
import type { ConnectionIdentity } from "../../../lib/drivers/module.ts";
import { below } from "../../../scripts/check/below.ts";
import { driverContract } from "../../contract/driver.ts";
import { localRig, shown } from "../../contract/local-rig.ts";
import { storeRig } from "../../contract/parts.ts";
import type { DriverRig, Foreign } from "../../contract/rig.ts";
import { storeContract } from "../../contract/store.ts";
import { toyLocal, toyLocalDriver } from "./module.ts";

/** What people can create in the place of a volume. */
const foreign = (base: string): readonly Foreign[] => {
  const object = (what: string, create: (path: string) => Promise<unknown>): Foreign => ({
    what,
    place: "volume",
    async make({ id }) {
      const path = `${base}/${id}`;
      await create(path);
      return async () => [await shown(path), below(base)];
    },
  });
  return [
    object("a file", path => writeFile(path, "theirs")),
    object("a folder", path => mkdir(`${path}/data`, { recursive: true })),
    object("a folder with another volume.json", async path => {
      await mkdir(path);
      await writeFile(`${path}/volume.json`, '{"name":7}');
    }),
    object("a link to a folder", async path => {
      await mkdir(`${base}/outside/deep`, { recursive: true });
      await symlink(`${base}/outside`, path);
    }),
  ];
};

const identity: ConnectionIdentity = {
  connection: "c1",
  driver: "toy-local",
  instanceId: undefined,
  maxIdBytes: 100,
};

const toyLocalRig = (): Promise<DriverRig> =>
  localRig({
    facts: toyLocal.facts,
    open: (base, { files, runner }) => toyLocalDriver(identity, base, runner, files),
    folder: ({ context }) => context["path"] ?? "",
    foreign,
  });

driverContract("toy-local", toyLocalRig, {
  snapshots: "a copy of a folder that pods write to needs more than a toy",
  clones: "for the same reason",
  modify: "folders have no properties",
  kept: "nothing needs a folder",
  groupSnapshots: "there are no snapshots",
});

storeContract("ToyLocalStore", async () => storeRig(await toyLocalRig()));
