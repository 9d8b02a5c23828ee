import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { goInModule } from "./go.ts";
import { built, versions } from "./place.ts";

interface GoMod {
  readonly Require: readonly { readonly Path: string; readonly Version: string }[];
  readonly Replace: readonly { readonly Old: { readonly Path: string }; readonly New: { readonly Path: string } }[];
}

const specification = "github.com/container-storage-interface/spec";

/** The sidecars and network plugins; the snapshotter's client is a separate module of its repository. */
const required: readonly (readonly [string, string])[] = [
  ["k8s.io/kubernetes", `v${versions.kubernetes}`],
  ["github.com/kubernetes-csi/external-provisioner/v6", versions.provisioner],
  ["github.com/kubernetes-csi/external-snapshotter/v8", versions.snapshotter],
  ["github.com/kubernetes-csi/external-snapshotter/client/v8", versions.snapshotter],
  ["github.com/kubernetes-csi/external-resizer/v2", versions.resizer],
  ["github.com/kubernetes-csi/external-attacher/v4", versions.attacher],
  ["github.com/containernetworking/plugins", versions.cni],
];

/** Runs go in the build folder, with another go.mod if one is named; as goInModule. */
export const go = (args: readonly string[], modfile?: string) => goInModule(built.source, args, modfile);

async function kubernetesGoMod(): Promise<GoMod> {
  const { GoMod } = JSON.parse(await go(["mod", "download", "-json", `k8s.io/kubernetes@v${versions.kubernetes}`]));
  return JSON.parse(await go(["mod", "edit", "-json", GoMod])) as GoMod;
}

/**
 * Writes one Go module that requires everything, so that all programs share libraries and the compiler's cache. Kubernetes takes
 * its libraries from folders of its repository; this module takes them as published under the same names.
 */
export async function writeModules(): Promise<void> {
  await mkdir(built.source, { recursive: true });
  await writeFile(join(built.source, "go.mod"), "module csimux.test/cluster\n\ngo 1.26.0\n");
  const { Require, Replace } = await kubernetesGoMod();
  const staging = versions.kubernetes.replace(/^1/, "v0");
  const lines = [
    "module csimux.test/cluster",
    "go 1.26.0",
    ...required.map(([path, version]) => `require ${path} ${version}`),
    ...Replace.filter(each => each.New.Path.startsWith("./staging/")).map(
      ({ Old }) => `replace ${Old.Path} => ${Old.Path} ${staging}`,
    ),
  ];
  await writeFile(join(built.source, "go.mod"), `${lines.join("\n")}\n`);
  // kubelet still reads a field that CSI 1.13 has dropped, and the sidecars need 1.13: each gets its own version.
  const spec = Require.find(({ Path }) => Path === specification)?.Version;
  if (spec === undefined) throw new Error(`k8s.io/kubernetes no longer requires ${specification}`);
  const own = await readFile(join(built.source, "go.mod"), "utf8");
  await writeFile(join(built.source, "kubernetes.mod"), `${own}replace ${specification} => ${specification} ${spec}\n`);
  for (const file of ["go.sum", "kubernetes.sum"]) await rm(join(built.source, file), { force: true });
}
