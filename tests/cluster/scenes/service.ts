import { inMachine } from "../../../scripts/cluster/machine.ts";
import { root, tool } from "../../../scripts/spawned.ts";
import { get } from "../kube.ts";
import { startServer, stopServer } from "./server.ts";

const script = "tests/cluster/scenes/service-proxy.ts";

/** The address of a Service, and its end. */
export interface ServedService {
  readonly address: string;
  close(): Promise<void>;
}

/** Makes a Service reachable for pods: the machine has no kube-proxy. */
export async function serveService(name: string, namespace: string): Promise<ServedService> {
  const { spec } = await get("service", name, namespace);
  const [address, port] = [String(spec.clusterIP), Number(spec.ports[0].port)];
  const change = async (verb: string) => {
    const { code, stderr } = await inMachine(["ip", "address", verb, `${address}/32`, "dev", "lo"]);
    if (code !== 0) throw new Error(stderr);
  };
  await change("add");
  await startServer([tool("bun"), `${root}/${script}`, address, String(port), namespace, name], address, port);
  return {
    address,
    async close() {
      await stopServer(script, address, port);
      await change("del");
    },
  };
}
