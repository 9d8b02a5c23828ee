import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { type Figure, shownNumber } from "../figures.ts";
import { root } from "../spawned.ts";
import { type Generated, partsOf } from "./generated.ts";

/** The figures of the last run that was kept. */
export interface Kept {
  readonly commit: string;
  /** The day, as YYYY-MM-DD. */
  readonly date: string;
  /** The load of the machine at the end of the run: other programs count, too. */
  readonly load: number;
  readonly figures: readonly Figure[];
}

/** Where the figures of a run are kept. */
export const keptPath = (name: string): string => `${root}/scripts/bench/${name}.json`;

const runs: readonly (readonly [name: string, peer: string, command?: string])[] = [
  ["bench", "democratic-csi"],
  ["bench-lab", "bare commands"],
  ["bench-scale", "", "bench ONLY=scale"],
];

/** A figure in Markdown. Those that belong to the one above, and begin with blanks, are left out. */
function row({ what, value, unit, peer }: Figure): readonly string[] {
  if (what.startsWith(" ")) return [];
  const compared = peer === undefined ? ["", ""] : [`${shownNumber(peer)} ${unit}`, (value / peer).toFixed(2)];
  return [`| ${[what, `${shownNumber(value)} ${unit}`.trim(), ...compared].join(" | ")} |\n`];
}

async function part([name, peer, command = name]: (typeof runs)[number]): Promise<string> {
  if (!existsSync(keptPath(name))) return "";
  const { commit, date, load, figures } = JSON.parse(await readFile(keptPath(name), "utf8")) as Kept;
  const head = `\`make ${command}\`, commit ${commit}, ${date}, two shared processors with a load of ${load}:\n\n`;
  return `\n${head}| What | csimux | ${peer} | ratio |\n| --- | --- | --- | --- |\n${figures.flatMap(row).join("")}`;
}

/** The figures in examples/guide/compatibility.md. */
export async function figuresInGuide(): Promise<Generated> {
  const parts = await Promise.all(runs.map(part));
  return await partsOf("examples/guide/compatibility.md", [`${parts.join("")}\n`]);
}
