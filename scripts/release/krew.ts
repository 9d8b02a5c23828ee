import { createHash } from "node:crypto";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../spawned.ts";
import { homeOf, type Run } from "./publish.ts";

/** The name of a plugin's archive among the files of a release. */
const pluginArchive = (architecture: string): string => `kubectl-csimux-linux-${architecture}.tar.gz`;

/** A manifest for krew-index (krew/docs/PLUGIN_LIFECYCLE.md, and `validate-krew-manifest`), with the checksums of archives by architecture. */
function krewManifest(home: string, version: string, sums: Readonly<Record<string, string>>): string {
  const platforms = Object.entries(sums).map(
    ([architecture, sum]) => `    - selector:
        matchLabels: { os: linux, arch: ${architecture} }
      uri: ${home}/releases/download/v${version}/${pluginArchive(architecture)}
      sha256: ${sum}
      bin: kubectl-csimux
`,
  );
  return `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: csimux
spec:
  version: v${version}
  homepage: ${home}
  shortDescription: Inspect and move the volumes of csimux
  description: |
    Says why a claim has no volume, shows the state of each storage system behind the CSI driver csimux, finds
    orphaned and lost volumes, and copies and moves claims between storage systems. csimux must run in the cluster.
  platforms:
${platforms.join("")}`;
}

/** Packs the executables of a release as plugins of kubectl, with the licence, and writes krew's manifest if the image is on GitHub. */
export async function packPlugin(
  image: string | undefined,
  version: string,
  folder: string,
  architectures: readonly string[],
  run: Run,
): Promise<void> {
  const sums: Record<string, string> = {};
  for (const architecture of architectures) {
    const work = await mkdtemp(join(tmpdir(), "csimux-plugin-"));
    try {
      await copyFile(join(folder, `csimux-linux-${architecture}`), join(work, "kubectl-csimux"));
      await copyFile(`${root}/LICENSE`, join(work, "LICENSE"));
      const archive = join(folder, pluginArchive(architecture));
      const same = [
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--use-compress-program=gzip -n",
      ];
      await run("tar", ...same, "-cf", archive, "-C", work, "LICENSE", "kubectl-csimux");
      sums[architecture] = createHash("sha256")
        .update(await readFile(archive))
        .digest("hex");
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  const home = homeOf(image);
  if (home !== undefined) await writeFile(join(folder, "csimux.yaml"), krewManifest(home, version, sums));
}
