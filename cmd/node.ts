import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Segments } from "../lib/core/topology.ts";
import { localRunner } from "../lib/io/local.ts";
import { NodeVolumes } from "../lib/node/volumes.ts";
import type { Host } from "./host.ts";
import type { MainFile } from "./main-file.ts";
import { nodeInfo } from "./node-info.ts";
import type { ServeOptions } from "./serve-options.ts";
import { toolEnvironment } from "./tools.ts";

/** Where the host's root is mounted in the node pod of the existing chart. */
const hostRoot = "/host";

/** Builds the node half by hand. */
export function openNode(options: ServeOptions, host: Host, main: MainFile) {
  const runner = localRunner({ env: toolEnvironment(host.env) });
  const state = options.stateDir ?? join(existsSync(hostRoot) ? hostRoot : "/", "var/lib/csimux", options.name);
  const volumes = new NodeVolumes({ runner, records: join(state, "volumes"), mountinfo: "/proc/self/mountinfo" });
  const info = () => nodeInfo(main.config, options.nodeName);
  return {
    parts: { volumes, info },
    /** Throws while this node cannot tell its topology. */
    ready: async () => void (await info()),
    ownNode: ownNode(options, main),
  };
}

/** This node's segment where topology type "node" is configured: volumes that live on one node are pinned to it. */
function ownNode({ nodeName }: ServeOptions, { config }: MainFile): Segments | undefined {
  const { nodeTopology } = config;
  if (nodeTopology?.kind !== "node" || nodeName === undefined) return undefined;
  return { [`${nodeTopology.prefix}/node`]: nodeName };
}
