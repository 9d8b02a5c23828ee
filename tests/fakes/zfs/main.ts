import { readFileSync, writeSync } from "node:fs";
import { run } from "./run.ts";

/** The program: FAKE_ZFS names the folder of its pools, the first word says which of zfs and zpool it is. */
const [program = "zfs", ...argv] = process.argv.slice(2);
const stdin = argv[0] === "receive" && !argv.includes("-A") ? readFileSync(0, "latin1") : "";
const result = run(process.env["FAKE_ZFS"] ?? "", program, argv, stdin);
writeSync(1, result.out);
if (result.later) {
  if (result.later.ms > 0) await Bun.sleep(result.later.ms);
  writeSync(1, result.later.text);
}
writeSync(2, result.err);
process.exit(result.code);
