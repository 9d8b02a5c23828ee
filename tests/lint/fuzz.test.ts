import { describe, expect, test } from "bun:test";
import { deployment, good, secret } from "./cases/good.ts";
import { check, seen } from "./checking.ts";
import type { Example } from "./examples/files.ts";
import { examples } from "./examples/index.ts";
import { mutators, random } from "./mutants.ts";

const count = Number(process.env["CSIMUX_MUTANTS"] ?? 1500);
const seed = Number(process.env["CSIMUX_SEED"] ?? 1);

const files: readonly Example[] = [
  ...good.values(),
  ...Object.values(examples).map(each => each.good),
  deployment,
  { "secret.yaml": secret },
].filter(each => Object.values(each).join("").length < 100_000);

/** One to three changes of one file of one good example. */
function mutant(number: number): { readonly how: string; readonly example: Example } {
  const pick = random(seed * 1_000_003 + number);
  const example = files[pick(files.length)] ?? {};
  const names = Object.keys(example);
  const name = names[pick(names.length)] ?? "";
  let text = example[name] ?? "";
  const how: string[] = [];
  for (let left = 1 + pick(3); left > 0; left--) {
    const all = Object.entries(mutators);
    const [title, mutate] = all[pick(all.length)] ?? ["", (same: string) => same];
    how.push(title);
    text = mutate(text, pick);
  }
  return { how: `${number}: ${name}: ${how.join(", ")}`, example: { ...example, [name]: text } };
}

describe(`spoiled files (${count} of them; CSIMUX_MUTANTS=10000 for more)`, () => {
  test("never crash the check, take long, or get a problem without a position", () => {
    let slowest = { ms: 0, how: "" };
    for (let number = 0; number < count; number++) {
      const { how, example } = mutant(number);
      const begun = performance.now();
      const problems = check(example);
      const ms = performance.now() - begun;
      if (ms > slowest.ms) slowest = { ms, how };
      for (const { file, line, column, rule, message } of problems) {
        const lines = (example[file] ?? "").split("\n").length;
        const placed = line >= 1 && line <= lines && column >= 1 && rule !== "" && message !== "";
        if (!placed) throw new Error(`${how}: ${rule} at ${file}:${line}:${column} of ${lines} lines`);
      }
      const text = seen(problems);
      if (text.includes("correct horse") || text.includes("1-abcdef"))
        throw new Error(`${how}: prints a secret:\n${text}`);
    }
    expect(slowest.ms).toBeLessThan(5_000);
  }, 600_000);

  test("just below the limit are checked in bounded time", () => {
    const keys = Array.from({ length: 3_000 }, (_, index) => `  key${index}: 1\n`).join("");
    const begun = process.cpuUsage();
    const problems = check({ "c1.yaml": `driver: nfs-client\nnfs:\n${keys}` });
    expect(problems.length).toBeGreaterThan(200);
    // Time of the processor: other processes on the machine do not count.
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(20_000);
  }, 300_000);
});
