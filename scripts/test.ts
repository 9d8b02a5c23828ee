import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "./build.ts";
import { bunTest, countSkipped } from "./bun-test.ts";
import { installMissing, missingPackages, onPath, widenPath } from "./packages.ts";
import { portable } from "./portable.ts";
import { unmountBelow } from "./sandbox.ts";
import { sanity } from "./sanity.ts";
import { spawned, tool } from "./spawned.ts";
import { nothing, plus, type Tally, tallyLine } from "./tally.ts";
import { filesWithout, testPackages, testPrograms } from "./test-programs.ts";

/** `bun test` on tests/ without the files that need what is missing here; those count as skipped. The executable is built. */
async function unit(): Promise<Tally> {
  const missing = Object.keys(testPrograms).filter(program => !onPath(program));
  const without = filesWithout(onPath);
  if (missing.length > 0)
    console.log(
      `Missing here, so what needs it is skipped: ${missing.join(", ")}. Debian: apt-get install ${missingPackages(testPackages).join(" ")}`,
    );
  const tally = await bunTest(
    without.map(file => `--path-ignore-patterns=${file}`),
    true,
  );
  return without.length === 0 ? tally : plus(tally, await countSkipped(without));
}

const parts: Readonly<Record<string, (executable: string) => Promise<Tally>>> = { unit, sanity, portable };

async function run(name: string, part: (executable: string) => Promise<Tally>, executable: string): Promise<Tally> {
  console.log(`\n--- ${name}`);
  const tally = await part(executable).catch((error: unknown) => {
    console.log(`FAILED: ${error instanceof Error ? error.message : String(error)}`);
    return { ...nothing, failed: 1 };
  });
  console.log(`--- ${name}: ${tallyLine(tally)}`);
  return tally;
}

/** Every temporary file of the tests lies below one folder; whatever is still there at the end is a failure. */
async function leftovers(folder: string): Promise<Tally> {
  const mounted = await unmountBelow(folder);
  const files = await readdir(folder);
  await rm(folder, { recursive: true, force: true });
  if (mounted.length + files.length === 0) return { ...nothing, passed: 1 };
  console.log(`\nFAILED: the tests left behind: ${[...mounted.map(point => `mount ${point}`), ...files].join(", ")}`);
  return { ...nothing, failed: 1 };
}

/** A path of a Unix socket has 107 bytes at most (unix(7)), and the tests need 45 of them below this folder. */
const temporary = (): string => (Buffer.byteLength(tmpdir()) > 60 ? "/tmp" : tmpdir());

async function main(wanted: readonly string[]): Promise<number> {
  const unknown = wanted.find(name => parts[name] === undefined);
  if (unknown !== undefined) {
    console.error(`"${unknown}" is no part of the tests; the parts are ${Object.keys(parts).join(", ")}`);
    return 2;
  }
  await installMissing(testPackages);
  const executable = await build();
  const folder = await mkdtemp(join(temporary(), "csimux-test-"));
  // Some tests serve as an ordinary user, who may pass but not look.
  await chmod(folder, 0o711);
  process.env["TMPDIR"] = folder;
  let total = nothing;
  for (const [name, part] of Object.entries(parts))
    if (wanted.length === 0 || wanted.includes(name)) total = plus(total, await run(name, part, executable));
  total = plus(total, await leftovers(folder));
  console.log(`\n${tallyLine(total)}`);
  return total.failed > 0 || total.passed === 0 ? 1 : 0;
}

/** Mounting wants root. Who is not root gets it inside a user and mount namespace, where nothing can leak out of. */
async function asRoot(wanted: readonly string[]): Promise<number> {
  if (process.getuid?.() === 0) return main(wanted);
  const namespace = ["unshare", "--user", "--map-root-user", "--mount"] as const;
  if ((await spawned([...namespace, "true"])).code !== 0) {
    console.error(
      "Not root, and user namespaces are not allowed here: tests that mount will fail. Try: sudo make test",
    );
    return main(wanted);
  }
  console.log("Not root: the tests run in a user namespace, and those that need the machine's own root are skipped.");
  const again = [...namespace, tool("bun"), import.meta.path, ...wanted] as const;
  return (await spawned(again, { show: true, timeoutMs: 5_400_000 })).code;
}

widenPath();
process.exitCode = await asRoot(process.argv.slice(2));
