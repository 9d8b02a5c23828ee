import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "./build.ts";
import { bunTest, countSkipped } from "./bun-test.ts";
import { buildGoPrograms } from "./cluster/tools.ts";
import { installMissing, missingPackages, onPath, widenPath } from "./packages.ts";
import { portable } from "./portable.ts";
import { unmountBelow } from "./sandbox.ts";
import { sanity } from "./sanity.ts";
import { spawned, tool } from "./spawned.ts";
import { nothing, plus, type Tally, tallyLine } from "./tally.ts";
import { filesWithout, testPackages, testPrograms } from "./test-programs.ts";

/** `bun test` without the files that need missing programs; those count as skipped. Requires the built executable. */
async function unit(): Promise<Tally> {
  const missing = Object.keys(testPrograms).filter(program => !onPath(program));
  const without = filesWithout(onPath);
  if (missing.length > 0)
    console.log(
      `Missing programs, so the tests that need them are skipped: ${missing.join(", ")}. On Debian: apt-get install ${missingPackages(testPackages).join(" ")}`,
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

/** All temporary files of the tests are below one folder; anything left there is a failure. */
async function leftovers(folder: string): Promise<Tally> {
  const mounted = await unmountBelow(folder);
  const files = await readdir(folder);
  await rm(folder, { recursive: true, force: true });
  if (mounted.length + files.length === 0) return { ...nothing, passed: 1 };
  console.log(`\nFAILED: the tests left behind: ${[...mounted.map(point => `mount ${point}`), ...files].join(", ")}`);
  return { ...nothing, failed: 1 };
}

/** The path of a Unix socket has at most 107 bytes (unix(7)), of which the tests need 45 below this folder. */
const temporary = (): string => (Buffer.byteLength(tmpdir()) > 60 ? "/tmp" : tmpdir());

async function main(wanted: readonly string[]): Promise<number> {
  const unknown = wanted.find(name => parts[name] === undefined);
  if (unknown !== undefined) {
    console.error(`unknown part "${unknown}"; the parts are ${Object.keys(parts).join(", ")}`);
    return 2;
  }
  await installMissing(testPackages);
  await buildGoPrograms();
  const executable = await build();
  const folder = await mkdtemp(join(temporary(), "csimux-test-"));
  // Some tests run as an ordinary user, who must be able to enter but not list it.
  await chmod(folder, 0o711);
  process.env["TMPDIR"] = folder;
  let total = nothing;
  for (const [name, part] of Object.entries(parts))
    if (wanted.length === 0 || wanted.includes(name)) total = plus(total, await run(name, part, executable));
  total = plus(total, await leftovers(folder));
  console.log(`\n${tallyLine(total)}`);
  return total.failed > 0 || total.passed === 0 ? 1 : 0;
}

/** Mounting requires root. Without it, the tests run in a user and mount namespace. */
async function asRoot(wanted: readonly string[]): Promise<number> {
  if (process.getuid?.() === 0) return main(wanted);
  const namespace = ["unshare", "--user", "--map-root-user", "--mount"] as const;
  if ((await spawned([...namespace, "true"])).code !== 0) {
    console.error("Not root, and user namespaces are not allowed: tests that mount will fail. Try: sudo make test");
    return main(wanted);
  }
  console.log("Not root: the tests run in a user namespace, and those that need root of the machine are skipped.");
  const again = [...namespace, tool("bun"), import.meta.path, ...wanted] as const;
  return (await spawned(again, { show: true, timeoutMs: 5_400_000 })).code;
}

widenPath();
process.exitCode = await asRoot(process.argv.slice(2));
