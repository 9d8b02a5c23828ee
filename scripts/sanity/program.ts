import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { root, spawned } from "../spawned.ts";

/** The version of csi-sanity that csimux is tested with. */
export const sanityVersion = "5.6.0";
const binary = `${root}/.cache/csi-sanity-${sanityVersion}-static`;
const module = `github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v${sanityVersion}`;

/**
 * Installs csi-sanity below .cache/ once and returns its path; undefined without Go to build it. It is linked
 * statically, so that it runs on other machines.
 */
export async function installSanity(): Promise<string | undefined> {
  if (existsSync(binary)) return binary;
  const go = existsSync("/usr/local/go/bin/go") ? "/usr/local/go/bin/go" : "go";
  if ((await spawned([go, "version"])).code !== 0) return undefined;
  const folder = `${root}/.cache/install-${process.pid}`;
  await mkdir(folder, { recursive: true });
  try {
    const result = await spawned([go, "install", module], {
      env: { GOBIN: folder, GOFLAGS: "-mod=mod", GOWORK: "off", CGO_ENABLED: "0" },
    });
    if (result.code !== 0) throw new Error(`go install ${module} failed:\n${result.stderr}`);
    await rename(join(folder, "csi-sanity"), binary);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return binary;
}
