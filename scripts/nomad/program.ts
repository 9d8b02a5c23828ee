import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { goInModule } from "../cluster/go.ts";
import { say } from "../say.ts";
import { built, cache, versions } from "./place.ts";

const nomad = "github.com/hashicorp/nomad";

interface Replacement {
  readonly Old: { readonly Path: string };
  readonly New: { readonly Path: string; readonly Version?: string };
}

const go = (...args: readonly string[]) => goInModule(built.source, args);

const goMod = (lines: readonly string[]): Promise<void> =>
  writeFile(join(built.source, "go.mod"), ["module csimux.test/nomad", "go 1.26.0", ...lines, ""].join("\n"));

/** Nomad's own replacements; it takes its API from a folder of its repository, and this module as published. */
async function replacements(): Promise<readonly string[]> {
  const { GoMod } = JSON.parse(await go("mod", "download", "-json", `${nomad}@${versions.nomad}`)) as { GoMod: string };
  const { Replace } = JSON.parse(await go("mod", "edit", "-json", GoMod)) as { Replace: readonly Replacement[] };
  return Replace.map(({ Old, New }) => {
    if (New.Version !== undefined) return `replace ${Old.Path} => ${New.Path} ${New.Version}`;
    if (Old.Path !== `${nomad}/api`) throw new Error(`unknown module in a folder of ${nomad}: ${Old.Path}`);
    return `replace ${Old.Path} => ${Old.Path} ${versions.api}`;
  });
}

/** Removes programs of other versions. */
async function forgetOtherVersions(): Promise<void> {
  for (const name of await readdir(cache))
    if (name.startsWith("nomad-") && join(cache, name) !== built.nomad) await rm(join(cache, name));
}

/** Compiles Nomad if it is missing: fifteen minutes on two processors without a cache. JOBS=1 uses one processor. */
export async function buildNomad(): Promise<void> {
  if (existsSync(built.nomad)) return;
  say(`building Nomad ${versions.nomad} from its Go module: fifteen minutes on two processors without a cache`);
  await rm(built.source, { recursive: true, force: true });
  await mkdir(built.source, { recursive: true });
  await goMod([]);
  await goMod([`require ${nomad} ${versions.nomad}`, ...(await replacements())]);
  const partial = `${built.nomad}.partial`;
  // The tags of Nomad's own releases (GNUmakefile), without the web interface, which is not in the module.
  const flags = ["-p", process.env["JOBS"] || "2", "-trimpath", "-tags=hashicorpmetrics,codegen_generated"];
  await go("build", ...flags, "-ldflags=-s -w", "-o", partial, nomad);
  await rename(partial, built.nomad);
  await forgetOtherVersions();
}
