import type { DriverPorts } from "../../lib/drivers/module.ts";
import { localHost } from "../../lib/io/local-host.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import type { StorageHost } from "../../lib/io/script.ts";

/** Ports of a driver that reaches this machine only; every machine behind ssh is `host`, where one is given. */
export const localPorts = (runner: CommandRunner, host?: StorageHost): DriverPorts => ({
  local: host ?? localHost(runner),
  ssh({ host: name }) {
    if (!host) throw new Error(`this test reaches no ${name}`);
    return { value: host, release: async () => {} };
  },
});
