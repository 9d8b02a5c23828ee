import { factsOf } from "../../../lib/drivers/facts.ts";
import { type ConnectionIdentity, driverModule } from "../../../lib/drivers/module.ts";
import type { StoredVolume } from "../../../lib/drivers/store.ts";
import { StoreDriver } from "../../../lib/drivers/store-driver.ts";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { toyLocalSchema } from "./schema.ts";
import { ToyLocalShare } from "./share.ts";
import { ToyLocalStore } from "./store.ts";

/** The driver of a connection. Its calls and programs are arguments, so that tests can interrupt each of them. */
export const toyLocalDriver = (
  identity: ConnectionIdentity,
  folder: string,
  runner: CommandRunner,
  files: Files = localFiles,
): StoreDriver<StoredVolume> =>
  new StoreDriver(identity, new ToyLocalStore(identity, folder, files, runner), new ToyLocalShare(folder));

/** Folders on the node that created them. */
export const toyLocal = driverModule({
  names: ["toy-local"],
  facts: factsOf("hostpath", "toy-local", {
    local: true,
    territory: { system: "folders", hosts: [], trees: [["toy-local", "folder"]] },
  }),
  schema: toyLocalSchema,
  open: (identity, config, { local }) => toyLocalDriver(identity, config["toy-local"].folder, local.runner),
});
