import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { build, compileTo } from "../build.ts";
import { root, spawned } from "../spawned.ts";
import type { Architecture } from "./archive.ts";

/** Bun's packages on the npm registry, by processor. */
const bunPackages: Readonly<Record<Architecture, string>> = {
  amd64: "bun-linux-x64",
  arm64: "bun-linux-aarch64",
};

/** This machine's processor. */
export const ownArchitecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64";

/** The Bun of another processor, of the version that builds here; it comes from the npm registry and is kept in .cache. */
async function foreignBun(architecture: Architecture): Promise<string> {
  const { version } = JSON.parse(await readFile(`${root}/node_modules/bun/package.json`, "utf8")) as {
    version: string;
  };
  const name = bunPackages[architecture];
  const folder = `${root}/.cache/bun-${version}-${architecture}`;
  const program = join(folder, `node_modules/@oven/${name}/bin/bun`);
  if (existsSync(program)) return program;
  const argv = ["npm", "install", "--prefix", folder, "--no-save", "--force", "--ignore-scripts"] as const;
  const { code, stderr } = await spawned([...argv, `@oven/${name}@${version}`]);
  if (code !== 0) throw new Error(`npm cannot install @oven/${name}@${version}: ${stderr.slice(-1000)}`);
  return program;
}

/** Makes csimux for a processor and answers its path. For a processor other than this machine's it is compiled without a run. */
export async function executableFor(architecture: Architecture): Promise<string> {
  if (architecture === ownArchitecture) return build();
  const bun = await foreignBun(architecture);
  const target = `bun-linux-${architecture === "amd64" ? "x64" : "arm64"}`;
  const file = `${root}/dist/csimux-${architecture}`;
  return compileTo(file, "cmd/csimux.ts", `--target=${target}`, `--compile-executable-path=${bun}`);
}
