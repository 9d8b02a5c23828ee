import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { engineSettings } from "../engine.ts";
import { fail, say } from "../say.ts";
import { cacheFolder, root, spawned } from "../spawned.ts";
import { type Architecture, type Variant, writeArchive } from "./archive.ts";
import { executableFor, ownArchitecture } from "./executables.ts";
import { billOfMaterials } from "./sbom.ts";
import { tour } from "./tour.ts";

/** The name of the image in the archive, which no registry has; the tag is the version. */
const repository = "localhost/csimux";

/** Where `make image` works and leaves what it made. */
export const imageFolder = `${root}/dist/image`;

/** The archive that `make image` makes. */
export const imageArchive = `${imageFolder}/csimux.oci.tar`;

/** What a container of the image starts with. */
const config = {
  Env: [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ...Object.entries(engineSettings).map(([name, value]) => `${name}=${value}`),
  ],
  Entrypoint: ["/usr/bin/tini", "-s", "--", "/usr/local/bin/csimux"],
  WorkingDir: "/home/csi/app",
} as const;

/** Files of Debian that were put together, for every checkout. */
const cache = cacheFolder("csimux-image");

const debianFiles = (architecture: Architecture): string => `${cache}/${architecture}/debian`;
const ownFiles = (architecture: Architecture): string => `${imageFolder}/${architecture}/csimux`;

/** What the files of Debian are made from: of another recipe come other files. */
async function recipe(): Promise<string> {
  const hash = createHash("sha256");
  for (const name of ["rootfs.sh", "packages", "left-out"])
    hash.update(await readFile(`${root}/scripts/image/${name}`));
  return hash.digest("hex");
}

/** The files of Debian, unless they are there from the same recipe: FRESH=1 asks the archive for what has changed. */
async function debianLayer(architecture: Architecture): Promise<string> {
  const folder = debianFiles(architecture);
  const wanted = await recipe();
  const there = await readFile(`${folder}.recipe`, "utf8").catch(() => "");
  if (there === wanted && !process.env["FRESH"]) return folder;
  say(`fetching Debian's packages for ${architecture}`);
  await mkdir(dirname(folder), { recursive: true });
  await rm(`${folder}.recipe`, { force: true });
  const made = await spawned([`${root}/scripts/image/rootfs.sh`, architecture, folder]);
  if (made.code === 0) {
    await writeFile(`${folder}.recipe`, wanted);
    return folder;
  }
  throw new Error(`the files of Debian for ${architecture} cannot be had:\n${made.stderr.slice(-2000)}`);
}

/** csimux, and the probe of charts that were made for democratic-csi. */
async function ownLayer(architecture: Architecture): Promise<string> {
  const folder = ownFiles(architecture);
  await rm(folder, { recursive: true, force: true });
  const program = join(folder, "usr/local/bin/csimux");
  const probe = join(folder, "home/csi/app/bin/liveness-probe");
  for (const file of [program, probe]) await mkdir(dirname(file), { recursive: true });
  await copyFile(await executableFor(architecture), program);
  await copyFile(`${root}/scripts/liveness-probe`, probe);
  for (const file of [program, probe]) await chmod(file, 0o755);
  return folder;
}

/** Makes the archive for the processors, and a bill of materials for each. Answers the digest of the image. */
export async function makeImage(architectures: readonly Architecture[], file = imageArchive): Promise<string> {
  const { version } = JSON.parse(await readFile(`${root}/package.json`, "utf8")) as { version: string };
  const variants: Variant[] = [];
  for (const architecture of architectures) {
    const debian = await debianLayer(architecture);
    say(`compiling csimux for ${architecture}`);
    const layers = [debian, await ownLayer(architecture)];
    variants.push({ architecture, layers, config });
    const bill = await billOfMaterials(debianFiles(architecture), architecture, version);
    await writeFile(`${imageFolder}/csimux-${architecture}.spdx.json`, bill);
  }
  say("writing the image");
  return writeArchive(file, [`${repository}:${version}`], variants);
}

const mebibytes = async (path: string): Promise<string> => {
  const { stdout } = await spawned(["du", "-sm", "--apparent-size", path]);
  return `${stdout.split("\t")[0]} MiB`;
};

async function main(): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error("make image needs root: the files of the image belong to root");
  const architectures: readonly Architecture[] = ["amd64", "arm64"];
  const digest = await makeImage(architectures);
  console.log(`${imageArchive}: ${await mebibytes(imageArchive)}, ${digest}`);
  for (const architecture of architectures) {
    const debian = debianFiles(architecture);
    const program = join(ownFiles(architecture), "usr/local/bin/csimux");
    const sizes = `Debian's files ${await mebibytes(debian)}, csimux ${await mebibytes(program)}`;
    console.log(`  ${architecture}: ${sizes}; csimux-${architecture}.spdx.json`);
    if (architecture !== ownArchitecture) console.log(`    ${await tour(program, debian, architecture)}`);
  }
}

if (import.meta.main) await main().catch(fail);
