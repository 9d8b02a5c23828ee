import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { root, tool } from "../spawned.ts";
import type { Outcome } from "./ajv.ts";
import type { Scale } from "./setting.ts";
import type { Figure } from "./table.ts";

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

interface Finding {
  readonly file: string;
  readonly severity: string;
  readonly message: string;
}

/** As many connection files of all kinds as the scale asks for, made from the examples, each with storage of its own. */
async function manyFiles(folder: string, count: number): Promise<string> {
  const names = (await readdir(`${root}/examples`)).filter(name => name.endsWith(".yaml"));
  const texts = await Promise.all(names.map(name => readFile(`${root}/examples/${name}`, "utf8")));
  const connections = texts.filter(text => /^driver: (?!proxy)[a-z]/m.test(text) && !/^apiVersion:/m.test(text));
  await mkdir(join(folder, "connections"), { recursive: true });
  for (let index = 0; index < count; index++) {
    const text = (connections[index % connections.length] ?? "")
      .replace(/(ParentName: *)(\S+)/g, `$1tank/n${index}/$2`)
      .replace(/(BasePath: *)(\S+)/g, `$1/n${index}$2`);
    await writeFile(join(folder, "connections", `n${index}.yaml`), text);
  }
  const main = join(folder, "proxy.yaml");
  await writeFile(main, "driver: proxy\nproxy:\n  configFolder: ./connections\n");
  return main;
}

interface Run {
  readonly seconds: number;
  readonly mebibytes: number;
}

/** Runs a program to its end, start included, and gives what it printed to `check`. */
async function timed(argv: readonly string[], check: (stdout: string) => void): Promise<Run> {
  const begun = performance.now();
  const child = Bun.spawn([...argv], { stdout: "pipe", stderr: "pipe" });
  const stdout = await new Response(child.stdout).text();
  await child.exited;
  const seconds = (performance.now() - begun) / 1000;
  check(stdout);
  return { seconds, mebibytes: (child.resourceUsage()?.maxRSS ?? Number.NaN) / (1 << 20) };
}

const csimux = (executable: string, main: string): Promise<Run> =>
  timed([executable, "validate", "--config", main, "--format", "json"], stdout => {
    const output: { readonly diagnostics: readonly Finding[] } = JSON.parse(stdout);
    const wrong = output.diagnostics.find(({ severity }) => severity === "error");
    if (wrong) throw new Error(`an example is wrong: ${wrong.file}: ${wrong.message}`);
  });

const ajv = (connections: string, count: number): Promise<Run> =>
  timed([tool("bun"), `${root}/scripts/bench/ajv.ts`, connections], stdout => {
    const { files, failures }: Outcome = JSON.parse(stdout);
    if (files !== count) throw new Error(`ajv read ${files} of ${count} files`);
    if (failures.length > 0) throw new Error(`ajv refuses ${failures.length} of ${files} files: ${failures[0]}`);
  });

/** Turn by turn, so that a busy moment of the machine meets both. */
async function besideAjv(executable: string, main: string, count: number): Promise<Figure> {
  const own: number[] = [];
  const peer: number[] = [];
  for (let round = 0; round < 3; round++) {
    own.push((await csimux(executable, main)).seconds);
    peer.push((await ajv(join(dirname(main), "connections"), count)).seconds);
  }
  return { what: `validate, ${count} files: peer is yaml + ajv`, value: median(own), unit: "s", peer: median(peer) };
}

/**
 * `csimux validate` over many connection files: wall time and largest memory of a whole run, start included, and its time
 * beside that of ajv on the same files.
 */
export async function validation(executable: string, scale: Scale, folder: string): Promise<readonly Figure[]> {
  const count = scale.connections;
  const main = await manyFiles(join(folder, "validate"), count);
  const runs: Run[] = [];
  for (let run = 0; run < scale.spawns; run++) runs.push(await csimux(executable, main));
  const what = `validate, ${count} files`;
  const whole = count === 1000;
  return [
    { what: `${what}: time`, value: median(runs.map(run => run.seconds)), unit: "s", ...(whole && { target: 1 }) },
    {
      what: `${what}: memory`,
      value: median(runs.map(run => run.mebibytes)),
      unit: "MiB",
      ...(whole && { target: 150 }),
    },
    await besideAjv(executable, main, count),
  ];
}
