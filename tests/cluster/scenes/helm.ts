import { inMachine, kubeconfig } from "../../../scripts/cluster/machine.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { goProgramInMachine } from "../../../scripts/cluster/tools.ts";
import type { Run } from "../../../scripts/release/publish.ts";
import { certificateIn } from "../../../scripts/release/registry.ts";
import { namespace } from "../deploy.ts";
import { registryFolder } from "./registry.ts";

/** Runs a program on the machine; it trusts the registry of the tests, and has the credentials of no one. Throws its error output. */
export const onMachine: Run = async (...argv) => {
  const home = `${state}/helm`;
  const homes = ["CACHE", "CONFIG", "DATA"].map(name => `HELM_${name}_HOME=${home}`);
  const trusted = `SSL_CERT_FILE=${certificateIn(registryFolder)}`;
  const env = ["env", `HOME=${home}`, ...homes, trusted, `KUBECONFIG=${kubeconfig}`];
  const { code, stdout, stderr } = await inMachine([...env, ...argv], 400_000);
  if (code !== 0) throw new Error(`${argv.join(" ")}: ${stderr.trim()}`);
  return stdout;
};

/** Runs helm against the cluster, in the namespace of csimux. Throws its error output. */
export const helm = (...args: readonly string[]): Promise<string> =>
  onMachine(goProgramInMachine("helm"), ...args, "--namespace", namespace);
