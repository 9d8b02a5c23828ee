import { factsOf } from "../facts.ts";
import { type ConnectionIdentity, type DriverModule, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { FilesystemNames } from "./names.ts";
import { OfsCli } from "./ofs-cli.ts";
import { objectivefsSchema } from "./schema.ts";
import { ObjectiveFsShare } from "./share.ts";
import { ObjectiveFsStore } from "./store.ts";

/** A connection that gets an `instance_id` keeps its earlier volumes, which have its name. */
const ownersOf = ({ instanceId, connection }: ConnectionIdentity): readonly string[] =>
  instanceId === undefined ? [connection] : [instanceId, connection];

/** File systems in an object store: `ofs-cli.ts` runs mount.objectivefs, `names.ts` encodes id, size and owner in the names. */
export const objectivefs: readonly DriverModule[] = [
  driverModule({
    names: ["objectivefs"],
    facts: factsOf("objectivefs", "objectivefs", {
      expands: false,
      parameters: {
        volume: ["env.ENDPOINT", "env.REGION", "env.CACHESIZE", "env.DISKCACHE_SIZE", "env.IDMAP"],
        snapshot: [],
      },
      territory: {
        system: "objectivefs",
        hosts: [
          ["objectivefs", "env", "ENDPOINT"],
          ["objectivefs", "env", "OBJECTSTORE"],
        ],
        trees: [["objectivefs", "pool"]],
        marked: "all",
      },
    }),
    schema: objectivefsSchema,
    open(identity, { objectivefs: { pool, cli, env } }, { local }) {
      const settings = { pool, sudo: cli?.sudoEnabled === true, env };
      const names = new FilesystemNames(ownersOf(identity), identity.maxIdBytes);
      const store = new ObjectiveFsStore(identity.connection, names, new OfsCli(local.runner, settings));
      return new StoreDriver(identity, store, new ObjectiveFsShare(pool, env["OBJECTSTORE"] ?? ""));
    },
  }),
];
