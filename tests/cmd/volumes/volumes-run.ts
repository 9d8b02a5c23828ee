import { Command } from "commander";
import { addVolumes } from "../../../cmd/cluster/volumes/command.ts";

/** A list as kubectl prints it. */
export const listOf = (...items: readonly object[]): string =>
  JSON.stringify({ apiVersion: "v1", kind: "List", items });

/** A PersistentVolume as the API shows it (Kubernetes API reference, PersistentVolume v1). */
export const pv = (name: string, volumeHandle: string, volumeAttributes = {}, driver = "csimux.storage") => ({
  kind: "PersistentVolume",
  metadata: { name },
  spec: { claimRef: { namespace: "shop", name: `claim-${name}` }, csi: { driver, volumeHandle, volumeAttributes } },
  status: { phase: "Bound" },
});

/** Runs `csimux volumes` on node w1. */
export async function volumes(stdin: string, ...words: readonly string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const program = new Command("csimux").exitOverride();
  const host = { out: (text: string) => void out.push(text), err: (text: string) => void err.push(text) };
  const env = { PATH: process.env["PATH"], CSI_NODE_ID: "w1" };
  const rest = { stdin: async () => stdin, env, hostname: "box", colour: false, pause: async () => {} };
  addVolumes(program, { ...host, ...rest });
  const before = process.exitCode;
  await program.parseAsync(["node", "csimux", "volumes", ...words]);
  const code = Number(process.exitCode ?? 0);
  process.exitCode = before ?? 0;
  return { code, out: out.join(""), err: err.join("") };
}
