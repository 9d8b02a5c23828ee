import { afterAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { shellImage } from "../../scripts/cluster/images.ts";
import { inMachine } from "../../scripts/cluster/machine.ts";
import { state } from "../../scripts/cluster/place.ts";
import { root } from "../../scripts/spawned.ts";
import { rehearsal } from "../quickstart.ts";
import { data, dataOutside, namespace, sharedFolder } from "./deploy.ts";
import { home, kube } from "./kube.ts";
import { nothingLeft } from "./scenes/left.ts";

// The commands of examples/guide/quickstart.md, taken out of the page, on the cluster of the tests in place of one of kind or k3s.

const work = join(state, "quickstart");
const seen = "/run/cluster/state/quickstart";

/** Whether the machine can be an NFS server and mount from it. Otherwise a folder of the machine replaces the share. */
const hasNfs = existsSync("/usr/sbin/exportfs") && /\bnfs4\b/.test(await readFile("/proc/filesystems", "utf8"));
const folder = `${data}/nas`;

/** Mounts the folder that replaces the share into the containers, and lets nodes report themselves, because a folder is on one node. */
async function withFolder(): Promise<void> {
  const overlay = join(work, "examples/kubernetes/central");
  // kustomize adds the namespace after it has applied the patches of the same folder.
  const patch = (kind: string, name: string) => sharedFolder(kind, name).replace(`  namespace: ${namespace}\n`, "");
  await writeFile(join(overlay, "patch-controller.yaml"), patch("Deployment", "csimux-controller"));
  await writeFile(join(overlay, "patch-node.yaml"), patch("DaemonSet", "csimux-node"));
  const file = join(overlay, "kustomization.yaml");
  const patches = "patches:\n  - path: patch-controller.yaml\n  - path: patch-node.yaml\n";
  await writeFile(file, `${await readFile(file, "utf8")}${patches}`);
  const main = join(overlay, "proxy.yaml");
  await writeFile(main, `${await readFile(main, "utf8")}  nodeTopology:\n    type: node\n`);
  await mkdir(join(dataOutside, "nas"), { recursive: true });
}

afterAll(async () => {
  await kube("delete", "pod/hello", "pvc/hello", "-n", home, "--ignore-not-found");
  if (existsSync(join(work, "my-cluster")))
    await kube("delete", "-k", `${seen}/my-cluster/central`, "--ignore-not-found", "--timeout=240s");
  await kube("delete", "namespace", namespace, "--ignore-not-found", "--timeout=240s");
  await rm(work, { recursive: true, force: true });
});

test("the commands of the quick start lead to a bound claim whose pod has written to its volume, and leave nothing", async () => {
  await rm(work, { recursive: true, force: true });
  await mkdir(join(work, "dist"), { recursive: true });
  await cp(join(root, "examples"), join(work, "examples"), { recursive: true });
  await cp(await build(), join(work, "dist/csimux"));
  if (!hasNfs) await withFolder();
  const text = rehearsal(hasNfs ? { podImage: shellImage } : { podImage: shellImage, folder });
  const script = `set -euxo pipefail\ncd ${seen}\nexport KUBECONFIG=/run/cluster/state/admin.kubeconfig\n${text}`;
  const { code, stdout, stderr } = await inMachine(["bash", "-c", script], 840_000);
  expect([code, code === 0 ? "" : stderr.slice(-4000)]).toEqual([0, ""]);
  expect(stdout).toContain("\nhello\n");
  expect(stdout).toMatch(/\/v\/pvc-[^\n]*\/greeting\n/);
  expect(stdout).toMatch(/\bnas\b.*\bgood\b/);
  await nothingLeft();
});
