import { createHash } from "node:crypto";
import { appendFile, copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildGoPrograms } from "../cluster/tools.ts";
import { executableFor } from "../image/executables.ts";
import { imageArchive, imageFolder, makeImage } from "../image/main.ts";
import { widenPath } from "../packages.ts";
import { fail, say } from "../say.ts";
import { root, spawned } from "../spawned.ts";
import { packPlugin } from "./krew.ts";
import { archiveName, packChart, publish, type Run } from "./publish.ts";
import { currentVersion, sectionOf } from "./version.ts";

/** Where `make release` leaves what it makes. */
const folder = `${root}/dist/release`;
const notes = `${root}/dist/release-notes.md`;
const architectures = ["amd64", "arm64"] as const;

const run: Run = async (...argv) => {
  const { code, stdout, stderr } = await spawned(argv);
  if (code !== 0) throw new Error(`${argv.slice(0, 2).join(" ")} failed: ${stderr.trim()}`);
  return stdout;
};

/** What has to be pushed after `make release`, and who does that. */
const remaining = (image: string | undefined, version: string): string =>
  `To push, by hand or by the workflow, which the tag starts:
  git push origin v${version}
  make publish IMAGE=${image ?? "ghcr.io/<owner>/csimux"}
    (the image ${archiveName(version)} and the chart csimux-${version}.tgz)
  gh release create v${version} --verify-tag --notes-file dist/release-notes.md dist/release/*
What remains for a person is listed in CONTRIBUTING.md, "Releases".`;

/** Makes the files of a release, of the tag TAG if that is set: executables, image, bills of materials, chart, notes and checksums. */
async function makeRelease({ TAG: tag, IMAGE, GITHUB_OUTPUT: output }: NodeJS.ProcessEnv): Promise<void> {
  const image = IMAGE?.toLowerCase();
  const version = await currentVersion();
  if (tag && tag !== `v${version}`) throw new Error(`the tag is ${tag}, but package.json has the version ${version}`);
  const section = sectionOf(await readFile(`${root}/CHANGELOG.md`, "utf8"), version);
  if (section === undefined)
    throw new Error(`CHANGELOG.md has no section ${version}: run "make version VERSION=${version}"`);
  await buildGoPrograms();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  say("packing the chart");
  await packChart(image, folder, run);
  for (const each of architectures) {
    say(`compiling the executable for ${each}`);
    await copyFile(await executableFor(each), join(folder, `csimux-linux-${each}`));
  }
  say("packing the kubectl plugins");
  await packPlugin(image, version, folder, architectures, run);
  const digest = await makeImage(architectures);
  say("writing notes and checksums");
  await copyFile(imageArchive, join(folder, archiveName(version)));
  for (const each of architectures)
    await copyFile(join(imageFolder, `csimux-${each}.spdx.json`), join(folder, `csimux-${each}.spdx.json`));
  await writeFile(notes, `${section}\n\nImage: \`${image ?? "csimux"}:${version}\`, ${digest}\n`);
  const sums = [];
  for (const name of (await readdir(folder)).sort()) {
    const hash = createHash("sha256").update(await readFile(join(folder, name)));
    sums.push(`${hash.digest("hex")}  ${name}\n`);
  }
  await writeFile(join(folder, "SHA256SUMS"), sums.join(""));
  console.log(`${folder}: ${sums.length + 1} files; image ${digest}\n${remaining(image, version)}`);
  // Outputs of a step (GitHub Actions, "Workflow commands").
  if (output) await appendFile(output, `digest=${digest}\nimage=${image ?? ""}\n`);
}

/** Pushes what `make release` has made to a registry. */
async function push({ IMAGE: image }: NodeJS.ProcessEnv): Promise<void> {
  if (!image) throw new Error("IMAGE is missing, for example IMAGE=ghcr.io/owner/csimux");
  const version = await currentVersion();
  const name = image.toLowerCase();
  // For another user than that of make release, such as without sudo.
  await buildGoPrograms();
  const { digest, chart } = await publish(name, version, folder, run);
  console.log(`pushed ${name}:${version} (${digest}) and ${chart}, version ${version}`);
}

widenPath();
await (process.argv[2] === "publish" ? push : makeRelease)(process.env).catch(fail);
