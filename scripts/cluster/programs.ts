import { existsSync } from "node:fs";
import { cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { say } from "../say.ts";
import { go, writeModules } from "./modules.ts";
import { built, cache, versions } from "./place.ts";

/** A Go program: its name in the folder of programs, its package, and whether it is part of Kubernetes. */
interface Program {
  readonly name: string;
  readonly package: string;
  readonly kubernetes: boolean;
  /** The program consists of the package's tests. */
  readonly tests?: boolean;
  /** Only the test `external` needs it. */
  readonly external?: boolean;
}

const kubernetes = (name: string, path: string): Program => ({ name, package: path, kubernetes: true });
const sidecar = (name: string, path: string): Program => ({
  name,
  package: `github.com/kubernetes-csi/${path}/cmd/${name}`,
  kubernetes: false,
});

const programs: readonly Program[] = [
  kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
  kubernetes("etcd", "go.etcd.io/etcd/server/v3"),
  kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
  kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
  kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
  kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
  ...["main/bridge", "main/loopback", "ipam/host-local"].map(path =>
    kubernetes(`cni/${basename(path)}`, `github.com/containernetworking/plugins/plugins/${path}`),
  ),
  sidecar("csi-provisioner", "external-provisioner/v6"),
  sidecar("csi-snapshotter", "external-snapshotter/v8"),
  sidecar("snapshot-controller", "external-snapshotter/v8"),
  sidecar("csi-resizer", "external-resizer/v2"),
  sidecar("csi-attacher", "external-attacher/v4"),
  // Kubernetes' own tests of drivers, their parallel runner, and the program of their pods.
  { ...kubernetes("e2e.test", "k8s.io/kubernetes/test/e2e"), tests: true, external: true },
  { ...kubernetes("ginkgo", "github.com/onsi/ginkgo/v2/ginkgo"), external: true },
  { ...kubernetes("agnhost", "k8s.io/kubernetes/test/images/agnhost"), external: true },
];

const component = "k8s.io/component-base/version";
const linked = [
  "-s -w",
  `-X ${component}.gitVersion=v${versions.kubernetes}`,
  `-X ${component}.gitMajor=1`,
  `-X ${component}.gitMinor=${versions.kubernetes.split(".")[1]}`,
  `-X ${component}.gitTreeState=clean`,
].join(" ");

const jobs = process.env["JOBS"] || "2";

async function compile({ name, package: path, kubernetes, tests }: Program): Promise<void> {
  const began = Date.now();
  const target = join(built.programs, name);
  // Renamed when complete, so that a partial file is never used.
  const partial = `${target}.partial`;
  const modfile = kubernetes ? "kubernetes.mod" : undefined;
  const command = tests ? ["test", "-c", "-vet=off"] : ["build"];
  await go([...command, "-p", jobs, "-trimpath", "-ldflags", linked, "-o", partial, path], modfile);
  await rename(partial, target);
  say(`built ${name} in ${Math.round((Date.now() - began) / 1000)} s`);
}

async function copyCrds(): Promise<void> {
  const module = "github.com/kubernetes-csi/external-snapshotter/client/v8";
  const folder = (await go(["list", "-m", "-f", "{{.Dir}}", module])).trim();
  await rm(built.crds, { recursive: true, force: true });
  await cp(join(folder, "config/crd"), built.crds, { recursive: true });
  await rm(join(built.crds, "kustomization.yaml"), { force: true });
}

/** Removes builds of other versions. */
async function forgetOtherVersions(): Promise<void> {
  const file = join(cache, "versions.json");
  const now = JSON.stringify(versions);
  const before = await readFile(file, "utf8").catch(() => now);
  if (before !== now)
    for (const folder of [built.programs, built.images, built.crds]) await rm(folder, { recursive: true, force: true });
  await mkdir(cache, { recursive: true });
  await writeFile(file, now);
}

/**
 * Compiles the missing programs of Kubernetes, the CSI sidecars and the network plugins, with `external` also Kubernetes' own tests. JOBS=1 uses
 * one processor.
 */
export async function buildPrograms(external: boolean): Promise<void> {
  await forgetOtherVersions();
  const wanted = programs.filter(each => external || !each.external);
  const missing = wanted.filter(({ name }) => !existsSync(join(built.programs, name)));
  if (missing.length === 0 && existsSync(built.crds)) return;
  await mkdir(built.plugins, { recursive: true });
  say(`building ${missing.length} programs from their Go modules: half an hour on two processors without a cache`);
  await writeModules();
  for (const [index, program] of missing.entries()) {
    say(`building ${program.name} (${index + 1} of ${missing.length})`);
    await compile(program);
  }
  await copyCrds();
}

if (import.meta.main) await buildPrograms(true);
