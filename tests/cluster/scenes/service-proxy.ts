import { execFile } from "node:child_process";
import { connect, createServer } from "node:net";
import { promisify } from "node:util";
import { kubeconfig } from "../../../scripts/cluster/machine.ts";

// What kube-proxy does for a Service, for one that has a single port. Started as service-proxy.ts ADDRESS PORT NAMESPACE NAME on the machine: its
// connections go to the ready endpoints of the Service in turn.

interface Slice {
  readonly endpoints: readonly {
    readonly addresses: readonly string[];
    readonly conditions: { readonly ready?: boolean };
  }[];
  readonly ports: readonly { readonly port: number }[];
}

const [, , address = "", port = "", namespace = "", name = ""] = process.argv;

async function endpoints() {
  const selector = ["-n", namespace, "-l", `kubernetes.io/service-name=${name}`, "-o", "json"];
  const argv = [
    `--kubeconfig=${kubeconfig}`,
    "--cache-dir=/run/cluster/state/kubectl",
    "get",
    "endpointslices",
    ...selector,
  ];
  const { stdout } = await promisify(execFile)("kubectl", argv);
  return (JSON.parse(stdout) as { readonly items: readonly Slice[] }).items
    .flatMap(slice =>
      slice.endpoints
        .filter(({ conditions }) => conditions.ready)
        .map(({ addresses: [host = ""] }) => ({ host, port: slice.ports[0]?.port ?? 0 })),
    )
    .sort((a, b) => (a.host < b.host ? -1 : 1));
}

let turn = 0;
createServer(async client => {
  client.pause();
  client.on("error", () => {});
  const all = await endpoints();
  const endpoint = all[turn++ % all.length];
  if (!endpoint) return void client.destroy();
  const server = connect(endpoint, () => {
    client.pipe(server);
    server.pipe(client);
  });
  server.on("error", () => client.destroy());
}).listen(Number(port), address);
