import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../spawned.ts";
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

/** `csimux validate` over many connection files: wall time and largest memory of a whole run, start included. */
export async function validation(executable: string, scale: Scale, folder: string): Promise<readonly Figure[]> {
  const main = await manyFiles(join(folder, "validate"), scale.connections);
  const seconds: number[] = [];
  const mebibytes: number[] = [];
  for (let run = 0; run < scale.spawns; run++) {
    const begun = performance.now();
    const child = Bun.spawn([executable, "validate", "--config", main, "--format", "json"], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const output: { diagnostics: readonly Finding[] } = JSON.parse(await new Response(child.stdout).text());
    await child.exited;
    const wrong = output.diagnostics.find(({ severity }) => severity === "error");
    if (wrong) throw new Error(`an example is wrong: ${wrong.file}: ${wrong.message}`);
    seconds.push((performance.now() - begun) / 1000);
    mebibytes.push((child.resourceUsage()?.maxRSS ?? Number.NaN) / (1 << 20));
  }
  const what = `validate, ${scale.connections} files`;
  const whole = scale.connections === 1000;
  return [
    { what: `${what}: time`, value: median(seconds), unit: "s", ...(whole && { target: 1 }) },
    { what: `${what}: memory`, value: median(mebibytes), unit: "MiB", ...(whole && { target: 150 }) },
  ];
}
