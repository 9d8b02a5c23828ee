import { writeFile } from "node:fs/promises";
import { loadavg } from "node:os";
import type { Figure } from "../figures.ts";
import { figuresInGuide, type Kept, keptPath } from "../generate/figures.ts";
import { write } from "../generate/generated.ts";
import { root, spawned } from "../spawned.ts";

/** Keeps the figures of a run, with the commit and the day, and puts them into the guide. */
export async function keep(name: string, figures: readonly Figure[]): Promise<void> {
  const git = async (...words: readonly string[]) => (await spawned(["git", "-C", root, ...words])).stdout.trim();
  const [head, changed] = [
    await git("rev-parse", "--short=8", "HEAD"),
    await git("status", "-s", "lib", "cmd", "proto"),
  ];
  const date = new Date().toISOString().slice(0, 10);
  const kept: Kept = {
    commit: changed === "" ? head : `${head}, with changes`,
    date,
    load: Math.round(loadavg()[0] ?? 0),
    figures,
  };
  await writeFile(keptPath(name), `${JSON.stringify(kept, null, 2)}\n`);
  await write(await figuresInGuide());
}
