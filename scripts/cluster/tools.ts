import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../lib/core/errors.ts";
import { onPath } from "../packages.ts";
import { say } from "../say.ts";
import { goFlags, runGo } from "./go.ts";
import { cache } from "./place.ts";

/** Programs of tests, each built from its Go module: the package and the module's version. */
const packages = {
  helm: ["helm.sh/helm/v3/cmd/helm", "v3.22.0"],
  kustomize: ["sigs.k8s.io/kustomize/kustomize/v5", "v5.8.2"],
  crane: ["github.com/google/go-containerregistry/cmd/crane", "v0.22.1"],
  actionlint: ["github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12"],
} as const;

type GoProgram = keyof typeof packages;

const folder = join(cache, "tools");
const fileOf = (name: GoProgram): string => `${name}-${packages[name][1]}`;

/** The path of a program, which exists once it is built. */
export const goProgram = (name: GoProgram): string => join(folder, fileOf(name));

/** Its path on the machine of the cluster. */
export const goProgramInMachine = (name: GoProgram): string => `/run/cluster/tools/${fileOf(name)}`;

/** Whether the program is built. Tests that need it are skipped otherwise. */
export const hasGoProgram = (name: GoProgram): boolean => existsSync(goProgram(name));

async function buildProgram(name: GoProgram): Promise<void> {
  const [path, version] = packages[name];
  const work = await mkdtemp(join(folder, ".work-"));
  try {
    await runGo(["go", "install", ...goFlags, `${path}@${version}`], folder, { GOBIN: work });
    await rename(join(work, name), goProgram(name));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Builds the missing programs if there is Go: three minutes on two processors. Never throws. */
export async function buildGoPrograms(): Promise<void> {
  for (const name of Object.keys(packages) as readonly GoProgram[]) {
    if (hasGoProgram(name)) continue;
    if (!onPath("go")) {
      say(`there is no Go on PATH to build ${name} with: tests that need ${name} are skipped`);
      continue;
    }
    say(`building ${name} from its Go module`);
    try {
      await mkdir(folder, { recursive: true });
      await buildProgram(name);
    } catch (error) {
      say(`${name} cannot be built, so tests that need it are skipped: ${messageOf(error)}`);
    }
  }
}

if (import.meta.main) await buildGoPrograms();
