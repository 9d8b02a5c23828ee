import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { messageOf } from "../../lib/core/errors.ts";
import { onPath } from "../packages.ts";
import { say } from "../say.ts";
import { goFlags, runGo } from "./go.ts";
import { cache } from "./place.ts";

const repository = "https://github.com/kubernetes-csi/external-snapshot-metadata";

/** Not one of the versions of the cluster, whose change builds all of it again. */
export const changedBlocksVersion = "v1.1.0";

/** The sidecar, and the clients of its repository, by their folders there. */
const packages = {
  "csi-snapshot-metadata": "cmd/csi-snapshot-metadata",
  "snapshot-metadata-lister": "tools/snapshot-metadata-lister",
  "snapshot-metadata-verifier": "tools/snapshot-metadata-verifier",
} as const;

type Program = keyof typeof packages;

/** The sources, with the libraries that they are built with. */
const sources = join(cache, `external-snapshot-metadata-${changedBlocksVersion}`);
const bin = join(cache, "tools");

/** The path of csi-snapshot-metadata or of one of its clients, which exists once it is built. */
export const changedBlocksProgram = (name: Program): string => join(bin, `${name}-${changedBlocksVersion}`);

/** The CRD of SnapshotMetadataService, and the rights of backup tools. */
export const changedBlocksManifests = {
  crds: join(sources, "client/config/crd"),
  clientRole: join(sources, "deploy/snapshot-metadata-client-cluster-role.yaml"),
} as const;

const names = Object.keys(packages) as readonly Program[];

/** Whether sidecar and clients are there. Tests that need them are skipped otherwise. */
export const hasChangedBlocks = (): boolean =>
  [...names.map(changedBlocksProgram), ...Object.values(changedBlocksManifests)].every(path => existsSync(path));

async function fetchSources(): Promise<void> {
  const work = await mkdtemp(join(cache, ".work-"));
  try {
    const flags = ["--quiet", "--depth=1", "--branch", changedBlocksVersion] as const;
    await runGo(["git", "clone", ...flags, repository, work], cache);
    await rename(work, sources);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function buildProgram(name: Program): Promise<void> {
  const path = packages[name];
  const target = changedBlocksProgram(name);
  // The clients are modules of their own, without libraries; those of the sidecar are the same.
  const main = join("cmd", basename(path));
  if (main !== path) await cp(join(sources, path, "main.go"), join(sources, main, "main.go"));
  const argv = ["go", "build", ...goFlags, "-o", `${target}.partial`, `./${main}`] as const;
  await runGo(argv, sources, { GOFLAGS: "-mod=vendor -buildvcs=false" });
  await rename(`${target}.partial`, target);
}

/** Builds the sidecar of changed blocks and its clients from their repository, because only that has all of them. Never throws. */
export async function buildChangedBlocks(): Promise<void> {
  if (hasChangedBlocks()) return;
  const missing = ["git", "go"].filter(program => !onPath(program));
  try {
    if (missing.length > 0) throw new Error(`there is no ${missing.join(" and no ")} on PATH`);
    await mkdir(bin, { recursive: true });
    if (!existsSync(sources)) await fetchSources();
    for (const name of names.filter(each => !existsSync(changedBlocksProgram(each)))) {
      say(`building ${name} from its repository`);
      await buildProgram(name);
    }
  } catch (error) {
    say(`tests of changed blocks are skipped: ${messageOf(error)}`);
  }
}

if (import.meta.main) await buildChangedBlocks();
