import { appendFile, cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { goProgram } from "../cluster/tools.ts";
import { root } from "../spawned.ts";
import { currentVersion } from "./version.ts";

/** Runs a program and answers its output. Throws if it fails. */
export type Run = (...argv: readonly [string, ...string[]]) => Promise<string>;

/** The name of the image's archive among the files of a release. */
export const archiveName = (version: string): string => `csimux-${version}.oci.tar`;

/** The address of the repository on GitHub whose workflow pushes this image; undefined without image and for other registries. */
export function homeOf(image: string | undefined): string | undefined {
  const [, repository] = /^ghcr\.io\/([^/]+\/[^/]+)$/.exec(image ?? "") ?? [];
  return repository === undefined ? undefined : `https://github.com/${repository}`;
}

/** Names the repository in a chart. Its page on Artifact Hub shows the README, where links within a checkout lead nowhere. */
async function linkChart(chart: string, home: string, version: string): Promise<void> {
  await appendFile(join(chart, "Chart.yaml"), `home: ${home}\nsources:\n  - ${home}\n`);
  const readme = join(chart, "README.md");
  const base = `${home}/blob/v${version}/examples/`;
  const text = await readFile(readme, "utf8");
  const linked = text
    .replaceAll("](../../", `](${base}`)
    .replaceAll("](values.yaml)", `](${base}helm/csimux/values.yaml)`);
  await writeFile(readme, linked);
}

/** Packs the chart into a folder; with the repository of the image, if one is given, so that its users need not name it. */
export async function packChart(image: string | undefined, folder: string, run: Run): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), "csimux-chart-"));
  try {
    const chart = join(work, "csimux");
    await cp(`${root}/examples/helm/csimux`, chart, { recursive: true });
    if (image !== undefined) {
      const values = await readFile(join(chart, "values.yaml"), "utf8");
      await writeFile(join(chart, "values.yaml"), values.replace(/^ {2}repository: .*$/m, `  repository: ${image}`));
    }
    const home = homeOf(image);
    if (home !== undefined) await linkChart(chart, home, await currentVersion());
    await run(goProgram("helm"), "package", chart, "--destination", folder);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Pushes the image and the chart in a folder to the registry of `image` (registry/owner/name), with the credentials of `docker login`.
 * Answers the digest of the image, which is that of the archive, and where the chart is.
 */
export async function publish(image: string, version: string, folder: string, run: Run) {
  const layout = await mkdtemp(join(tmpdir(), "csimux-layout-"));
  try {
    await run("tar", "-xf", join(folder, archiveName(version)), "-C", layout);
    const pushed = await run(goProgram("crane"), "push", layout, `${image}:${version}`);
    const charts = `oci://${image.replace(/[^/]*$/, "charts")}`;
    await run(goProgram("helm"), "push", join(folder, `csimux-${version}.tgz`), charts);
    return { digest: pushed.trim().replace(/^.*@/, ""), chart: `${charts}/csimux` };
  } finally {
    await rm(layout, { recursive: true, force: true });
  }
}
