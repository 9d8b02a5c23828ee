import { writeFile } from "node:fs/promises";
import { loadavg } from "node:os";
import type { Figure } from "../figures.ts";
import { figuresInGuide, type Kept, keptPath } from "../generate/figures.ts";
import { write } from "../generate/generated.ts";
import { root, spawned } from "../spawned.ts";

/** Keeps the figures of a run, with the commit and the day, and puts them into the guide. */
export async function keep(name: string, figures: readonly Figure[]): Promise<void> {
  const { stdout } = await spawned(["git", "-C", root, "describe", "--always", "--dirty"]);
  const date = new Date().toISOString().slice(0, 10);
  const kept: Kept = { commit: stdout.trim(), date, load: Math.round(loadavg()[0] ?? 0), figures };
  await writeFile(keptPath(name), `${JSON.stringify(kept, null, 2)}\n`);
  await write(await figuresInGuide());
}
