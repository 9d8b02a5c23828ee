import { rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { passing } from "../../waiting.ts";
import { run } from "./run.ts";

/** The program: FAKE_ZFS names the folder of its pools, the first word says which of zfs and zpool it is. */
const [program = "zfs", ...argv] = process.argv.slice(2);
const folder = process.env["FAKE_ZFS"] ?? "";
// In a function, because bun's bytecode does not know "await" outside of one.
void answer();

async function answer(): Promise<void> {
  const stdin = argv[0] === "receive" && !argv.includes("-A") ? await received() : "";
  const result = run(folder, program, argv, stdin);
  writeSync(1, result.out);
  writeSync(2, result.told ?? "");
  if (result.later) {
    // A slow system.
    if (result.later.ms > 0) await passing(result.later.ms);
    writeSync(1, result.later.text);
  }
  writeSync(2, result.err);
  process.exit(result.code);
}

/** The stream on stdin, or what has come of it when a signal ends the receive (dmu_recv.c: with -s it keeps its state). */
async function received(): Promise<string> {
  const shown = join(folder, "running", String(process.pid));
  const parts: Buffer[] = [];
  const ended = Promise.withResolvers<void>();
  // It ends once its state is saved, however many signals it gets.
  process.on("SIGTERM", () => ended.resolve());
  writeFileSync(shown, `${program} ${argv.join(" ")}`);
  process.stdin.on("data", (part: Buffer) => parts.push(part));
  process.stdin.once("end", () => ended.resolve());
  await ended.promise;
  rmSync(shown);
  return Buffer.concat(parts).toString("latin1");
}
