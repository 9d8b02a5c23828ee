import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { addKubectl } from "../../cmd/cluster/kubectl/command.ts";
import { fakeKubectl, type KubectlAnswer } from "../fakes/kubectl.ts";

/** Runs the plugin with a kubectl that gives these answers. */
export async function run(words: readonly string[], answers: readonly KubectlAnswer[], stdin = "") {
  const bin = mkdtempSync(join(tmpdir(), "csimux-kubectl-"));
  const { calls, stop } = await fakeKubectl(bin, answers);
  const out: string[] = [];
  const err: string[] = [];
  const program = new Command("csimux").exitOverride();
  const env = { PATH: `${bin}:${process.env["PATH"]}` };
  const host = { out: (text: string) => void out.push(text), err: (text: string) => void err.push(text), env };
  addKubectl(program, { ...host, stdin: async () => stdin, hostname: "box", colour: false, pause: async () => {} });
  const before = process.exitCode;
  await program.parseAsync(["node", "csimux", "kubectl", ...words]);
  const code = Number(process.exitCode ?? 0);
  process.exitCode = before ?? 0;
  const said = { code, out: out.join(""), err: err.join(""), calls };
  stop();
  rmSync(bin, { recursive: true });
  return said;
}

/** What kubectl shows of several objects. */
export const list = (...items: readonly object[]) => ({ apiVersion: "v1", kind: "List", items });

/** A pod of csimux (Pod v1). */
export const pod = (
  name: string,
  component: string,
  { ready = true, args = ["serve"], node = "w1", statuses = [{}] } = {},
) => ({
  metadata: { name, namespace: "storage", labels: { "app.kubernetes.io/component": component } },
  spec: {
    nodeName: node,
    containers: [
      { name: "provisioner", args: ["--csi-address=/csi/csi.sock"] },
      { name: "csimux", args: [...args, `--mode=${component}`], env: [{ name: "CONFIG", value: "/config/main.yaml" }] },
    ],
  },
  status: { conditions: [{ type: "Ready", status: ready ? "True" : "False" }], containerStatuses: statuses },
});
export const controller = pod("csimux-controller-1", "controller", { args: ["serve", "--config=$(CONFIG)"] });
export const node = pod("csimux-node-w1", "node");
export const csimuxPods = (...items: readonly object[]): KubectlAnswer => ({
  to: "get pods -A -l app.kubernetes.io/name=csimux",
  out: list(...items),
});
