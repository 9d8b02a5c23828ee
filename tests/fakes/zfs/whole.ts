import type { Argv, Output } from "../../../lib/io/runner.ts";
import type { Script, Step } from "../../../lib/io/script.ts";
import type { Result } from "./run.ts";
import { shell } from "./shell.ts";

/** Whether a shell makes and finishes a file system (lib/drivers/zfs/cli/whole.ts, wholeText). */
export const isWhole = (text: string): boolean => text.includes("make=$1 read=$2 permit=$3 finish=$4");

/** What such a shell does. `run` runs what is not zfs. */
export async function whole(
  [make = "", read = "", permit = "", finish = "", name = ""]: readonly string[],
  zfs: (argv: readonly string[]) => Result,
  run: (argv: Argv) => Promise<Output>,
): Promise<Result> {
  const made = shell(make, zfs);
  if (made.code !== 0) return made;
  const later = (err: string): Result => ({ out: "", err, code: 3 });
  const rows = shell(read, zfs);
  if (rows.code !== 0) return later(rows.err);
  const of = (property: string) =>
    rows.out
      .split("\n")
      .find(line => line.startsWith(`${name}\t${property}\t`))
      ?.split("\t")[2];
  const place = of("mounted") === "yes" && of("mountpoint")?.startsWith("/") ? of("mountpoint") : undefined;
  if (permit !== "" && place === undefined) return later(`${name} is not mounted\n`);
  const permitted = permit === "" ? undefined : await run(["sh", "-c", `place=$1; ${permit}`, "sh", place ?? ""]);
  if (permitted && permitted.exitCode !== 0) return later(permitted.stderr);
  if (place === undefined) return { ...rows, out: `\n${rows.out}` };
  const finished = shell(finish.replaceAll('"$place"', `'${place}'`), zfs);
  return finished.code === 0 ? { ...rows, out: `finished\n${rows.out}` } : later(finished.err);
}

/** Where such a shell has its lines among the words that start it. */
const place = { make: 5, finish: 8 };

/** The same script with another line in place of one of such a shell; undefined for any other script. */
export function wholeWith({ steps, ...script }: Script, line: keyof typeof place, other: string): Script | undefined {
  if (!steps.some(isWholeStep)) return undefined;
  const changed = (step: Step): Step => {
    const [program, ...words] = step.argv;
    return isWholeStep(step) ? { ...step, argv: [program, ...words.with(place[line] - 1, other)] } : step;
  };
  const [first, ...rest] = steps;
  return { ...script, steps: [changed(first), ...rest.map(changed)] };
}

const isWholeStep = ({ argv }: Step): boolean => isWhole(String(argv[2]));
