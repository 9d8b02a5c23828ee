import { createHash } from "node:crypto";
import { semaphores } from "../../core/semaphore.ts";
import { type Closable, type Lease, SharedInstances } from "../lease.ts";
import { memoizeByKey, type StorageHost } from "../script.ts";
import { SshHost, type SshParts } from "./host.ts";
import type { SshSettings } from "./settings.ts";

/** How long the shells of a host are kept after the last connection has released them, in milliseconds. */
const lingerMs = 60_000;

interface SharedHost extends Closable {
  readonly shared: StorageHost["shared"];
}

/** All storage hosts behind ssh. Connections with the same settings share the shells; each connects on first use. */
export class SshHosts {
  readonly #sharing = new SharedInstances<SshHost>(lingerMs);
  readonly #turns = semaphores(1);
  /** By machine, regardless of the user; kept while the shells of any user exist. */
  readonly #commons = new SharedInstances<SharedHost>(lingerMs);
  readonly #parts: SshParts;

  constructor(parts: SshParts) {
    this.#parts = parts;
  }

  lease(settings: SshSettings): Lease<StorageHost> {
    const key = createHash("sha256").update(JSON.stringify(settings)).digest("hex");
    const { value, release } = this.#sharing.lease(key, () => new SshHost(settings, this.#parts));
    const long = this.#sharing.lease(`${key} long`, () => new SshHost(settings, this.#parts));
    const machine = `${settings.host}:${settings.port}`;
    const common = this.#commons.lease(machine, () => ({ shared: memoizeByKey(), close: async () => {} }));
    return {
      value: this.#member(machine, value, long.value, common.value.shared),
      release: async () => {
        await Promise.all([release(), long.release(), common.release()]);
      },
    };
  }

  /** Closes all ssh connections. */
  async close(): Promise<void> {
    await Promise.all([this.#sharing.close(), this.#commons.close()]);
  }

  /** One connection's member of a host, with its own queue. `long`: the same host for long scripts. */
  #member(machine: string, host: SshHost, long: SshHost, shared: StorageHost["shared"]): StorageHost {
    const member = {};
    return {
      runner: {
        where: host.where,
        async run({ timeoutMs = 30_000, env = {}, argv, ...rest }, signal) {
          const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`);
          const words = settings.length > 0 ? (["env", ...settings, ...argv] as const) : argv;
          const outputs = await host.run(member, { steps: [{ name: "run", argv: words, ...rest }], timeoutMs }, signal);
          const output = outputs.get("run");
          if (output === undefined) throw new Error("a script that ended has the output of its first step");
          return output;
        },
      },
      script: (script, signal) => (script.long ? long : host).run(member, script, signal),
      exclusive: (tool, signal, work) => this.#turns(`${machine} ${tool}`).run(work, signal),
      shared,
      child: (argv, streams, signal) => long.child(argv, streams, signal),
    };
  }
}
