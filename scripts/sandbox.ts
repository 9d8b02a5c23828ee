import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unescaped } from "../lib/core/mountinfo.ts";

/** A folder with everything that a csimux under test needs: connections, a proxy.yaml, a socket. */
export interface Sandbox {
  readonly folder: string;
  readonly socket: string;
  readonly config: string;
  readonly connections: string;
  readonly stateDir: string;
  /** Unmounts leftovers and removes the folder; returns the mount points that were left. */
  remove(): Promise<readonly string[]>;
}

/** Further lines of the main file. */
const settings = {
  off: [],
  node: ["  nodeTopology:", "    type: node"],
  group: ["  groups:", "    pool:", "      members: [one, two]", "      policy: ordered"],
  zone: [
    "  nodeTopology:",
    "    type: zone",
    "    fromRegexp:",
    "      - topologyKey: zone",
    "        source: env",
    "        envName: CSIMUX_ZONE",
    "        regex: (.+)",
    '        template: "{match:1}"',
  ],
} as const;

/** The kinds of sandbox: no topology, by node, by zone, or none with both connections in the group "pool". */
export type Topology = keyof typeof settings;

/** The environment for the zone rule of a sandbox. */
export const zoneEnvironment = { CSIMUX_ZONE: "zone-1" } as const;

const placed: Readonly<Record<Topology, readonly string[]>> = {
  off: [],
  node: [],
  group: [],
  zone: ["proxy:", "  perDriver:", "    topology:", "      - requirements:", "          zone: zone-1"],
};

/** The file of a local-hostpath connection with volumes below `base`. */
export const connectionFile = (base: string, kind: Topology): string =>
  [
    "driver: local-hostpath",
    "local-hostpath:",
    `  shareBasePath: ${base}`,
    `  controllerBasePath: ${base}`,
    '  dirPermissionsMode: "0777"',
    ...placed[kind],
    "",
  ].join("\n");

/** Mount points at or below a folder, deepest first (proc(5), mountinfo: field five). */
async function mountsBelow(folder: string): Promise<readonly string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  const points = lines.map(line => unescaped(line.split(" ")[4] ?? ""));
  return points.filter(point => point === folder || point.startsWith(`${folder}/`)).reverse();
}

/** Unmounts everything at or below a folder; returns the mount points that it found. */
export async function unmountBelow(folder: string): Promise<readonly string[]> {
  const left = await mountsBelow(folder);
  for (const point of left) execFileSync("umount", ["--lazy", point]);
  return left;
}

async function remove(folder: string): Promise<readonly string[]> {
  const left = await unmountBelow(folder);
  await rm(folder, { recursive: true, force: true });
  return left;
}

/** Creates a sandbox in a new temporary folder. */
export async function makeSandbox(kind: Topology, names: readonly string[] = ["one", "two"]): Promise<Sandbox> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-"));
  const connections = join(folder, "connections");
  const stateDir = join(folder, "state");
  await mkdir(connections);
  await mkdir(stateDir);
  for (const name of names) {
    const base = join(folder, "storage", name);
    await mkdir(base, { recursive: true });
    await writeFile(join(connections, `${name}.yaml`), connectionFile(base, kind));
  }
  const config = join(folder, "proxy.yaml");
  await writeFile(
    config,
    ["driver: proxy", "proxy:", `  configFolder: ${connections}`, ...settings[kind], ""].join("\n"),
  );
  return { folder, socket: join(folder, "csi.sock"), config, connections, stateDir, remove: () => remove(folder) };
}
