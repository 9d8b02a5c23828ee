import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { busybox } from "../cluster/images.ts";
import { ownArchitecture } from "../image/executables.ts";
import { imageArchive, makeImage } from "../image/main.ts";
import { spawned } from "../spawned.ts";
import { inClient } from "./machine.ts";
import { clientNames, images, state } from "./place.ts";

interface Descriptor {
  readonly digest: string;
}

async function run(...argv: readonly [string, ...string[]]): Promise<void> {
  const { code, stderr } = await spawned(argv);
  if (code !== 0) throw new Error(`${argv.join(" ")}: ${stderr.trim()}`);
}

/** Adds to an unpacked image layout the list of layers that Docker 20.10 requires (docker image save, "manifest.json"). */
async function addManifest(folder: string, name: string): Promise<void> {
  const file = ({ digest }: Descriptor): string => `blobs/${digest.replace(":", "/")}`;
  const read = async (path: string) => JSON.parse(await readFile(join(folder, path), "utf8"));
  const { manifests: named } = (await read("index.json")) as { manifests: readonly [Descriptor] };
  const { manifests: variants } = (await read(file(named[0]))) as { manifests: readonly [Descriptor] };
  const { config, layers } = (await read(file(variants[0]))) as { config: Descriptor; layers: readonly Descriptor[] };
  const manifest = [{ Config: file(config), RepoTags: [name], Layers: layers.map(file) }];
  await writeFile(join(folder, "manifest.json"), JSON.stringify(manifest));
}

async function writeImages(folder: string): Promise<void> {
  await makeImage([ownArchitecture]);
  const layout = join(folder, "layout");
  const shell = join(folder, "shell");
  for (const each of [layout, shell]) await mkdir(each);
  await run("tar", "-xf", imageArchive, "-C", layout);
  await addManifest(layout, images.csimux);
  await run("tar", "-cf", join(folder, "csimux.tar"), "-C", layout, "manifest.json", "blobs");
  await busybox(shell);
  await run("tar", "-cf", join(folder, "shell.tar"), "-C", shell, ".");
}

async function docker(...args: readonly string[]): Promise<void> {
  for (const client of clientNames) {
    const { code, stderr } = await inClient(client, ["docker", "-H", "unix:///run/docker.sock", ...args], 300_000);
    if (code !== 0) throw new Error(`docker ${args[0]} on ${client}: ${stderr.trim()}`);
  }
}

/** Makes csimux's image and that of the tests' tasks, and gives them to the Docker of each client. */
export async function loadImages(): Promise<void> {
  const folder = await mkdtemp(join(state, "images-"));
  try {
    await writeImages(folder);
    await docker("load", "-i", join(folder, "csimux.tar"));
    await docker("import", "--change=ENV PATH=/bin", join(folder, "shell.tar"), images.shell);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
