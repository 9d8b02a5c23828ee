import { existsSync } from "node:fs";
import { join } from "node:path";
import { localRunner } from "../lib/io/local.ts";
import { NodeVolumes } from "../lib/node/volumes.ts";
import type { Host } from "./host.ts";
import type { OwnNode } from "./node-info.ts";
import type { ServeOptions } from "./serve-options.ts";
import { toolEnvironment } from "./tools.ts";

/** Where the host's root is mounted in the node pod of the existing chart. */
const hostRoot = "/host";

/** Builds the node half by hand. */
export function openNode(options: ServeOptions, host: Host, { info }: OwnNode) {
  const runner = localRunner({ env: toolEnvironment(host.env) });
  const state = options.stateDir ?? join(existsSync(hostRoot) ? hostRoot : "/", "var/lib/csimux", options.name);
  const volumes = new NodeVolumes({ runner, records: join(state, "volumes"), mountinfo: "/proc/self/mountinfo" });
  let told = false;
  return {
    parts: { volumes, info },
    /** Throws until this node could tell its topology once; the cluster's API may be away later without harm. */
    ready: async () => {
      if (!told) await info();
      told = true;
    },
  };
}
