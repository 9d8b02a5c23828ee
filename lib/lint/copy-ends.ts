import type { CopyEnd } from "../copies/methods.ts";
import { idBytes } from "../core/handle.ts";
import { usualCopies } from "../core/proxy.ts";
import { copyAbilities } from "../drivers/copying.ts";
import type { DriverPorts } from "../drivers/module.ts";
import type { StorageHost } from "../io/script.ts";
import type { ConnectionFile, LintInput } from "./lint-input.ts";

const unreachable = async (): Promise<never> => {
  throw new Error("reading files reaches no machine");
};

const nowhere: StorageHost = {
  runner: { where: "nowhere", run: unreachable },
  script: unreachable,
  exclusive: unreachable,
  shared: (_, make) => make(),
};

/** Opening a driver does no I/O, so it needs no machine. */
const ports: DriverPorts = { local: nowhere, ssh: () => ({ value: nowhere, release: async () => {} }) };

/** What is needed of a connection file. */
type ReadFile = Pick<ConnectionFile, "name" | "read">;

const known = new WeakMap<ReadFile, CopyEnd | undefined>();

/** A connection with what its driver can do for copies; undefined if its file is not valid. */
export function copyEndOf(connection: ReadFile): CopyEnd | undefined {
  if (!known.has(connection)) known.set(connection, opened(connection));
  return known.get(connection);
}

function opened({ name, read: { config } }: ReadFile): CopyEnd | undefined {
  if (!config) return undefined;
  const { module, driver: driverName, instanceId, mountFlags, copySsh, labels, copies, settings } = config;
  const identity = { connection: name, driver: driverName, instanceId, mountFlags, copySsh, maxIdBytes: idBytes(name) };
  try {
    const driver = module.open(identity, settings as never, ports);
    const abilities = copyAbilities(driver);
    void driver.close?.();
    return { name, driverName, labels, copies, ...abilities };
  } catch {
    // The checks of its file say what is wrong.
    return undefined;
  }
}

/** All connections with a valid file. */
export const copyEnds = ({ connections }: Pick<LintInput, "connections">): readonly CopyEnd[] =>
  connections.flatMap(connection => copyEndOf(connection) ?? []);

/** How copies run, as the main file says. */
export const copySettingsOf = ({ main }: Pick<LintInput, "main">) => main?.read.config?.copies ?? usualCopies;
