import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { localRunner } from "../../../lib/io/local.ts";

/** Looks at what is there, and then again when this process can open nothing more; prints the answers. Soft limits are raised by bun itself. */
const script = `
import { openSync, closeSync } from "node:fs";
import { BlockDevices } from "./lib/node/disks/block-device.ts";
import { isHeld } from "./lib/node/disks/in-use.ts";
import { Sysfs } from "./lib/node/disks/sysfs.ts";
import { OpenedSessions, RecordFolder } from "./lib/node/state/record-folder.ts";
const [root] = process.argv.slice(-1);
const sysfs = new Sysfs(root, undefined);
const sessions = new OpenedSessions({ opened: root + "/opened", proc: root });
const records = new RecordFolder(root + "/opened", "the record", value => value);
await sessions.add("one");
const looks = {
  names: () => sysfs.names("class"),
  text: () => sysfs.text("text"),
  holders: () => new BlockDevices(root).holders({ number: "8:0" }),
  isHeld: () => isHeld("/dev/null", AbortSignal.timeout(5_000)),
  opened: () => sessions.has("one"),
  others: async () => (await records.seen()).map(({ name }) => name),
};
const answers = async () => {
  const found = {};
  for (const [name, look] of Object.entries(looks)) found[name] = await look().catch(error => error.code);
  return found;
};
const before = await answers();
const open = [];
try {
  for (;;) open.push(openSync("/dev/null"));
} catch {}
const exhausted = await answers();
for (const file of open) closeSync(file);
console.log(JSON.stringify({ before, exhausted }));
`;

test("a node that can open no more files takes nothing for absent: no session, no user of a disk, no other volume", async () => {
  const root = mkdtempSync(join(tmpdir(), "csimux-exhausted-"));
  try {
    for (const folder of ["class/one", "sys/kernel/random", "dev/block/8:0/holders/dm-0"])
      mkdirSync(join(root, folder), { recursive: true });
    writeFileSync(join(root, "text"), "yes\n");
    writeFileSync(join(root, "sys/kernel/random/boot_id"), "boot\n");
    const argv = ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh", process.execPath, "-e", script, root] as const;
    const output = await localRunner({ env: { PATH: "/usr/bin:/bin" } }).run({ argv }, AbortSignal.timeout(30_000));
    const shown = output.stdout || output.stderr;
    const before = { names: ["one"], text: "yes", holders: ["dm-0"], isHeld: false, opened: "now", others: ["one"] };
    const exhausted = Object.fromEntries(Object.keys(before).map(look => [look, "unavailable"]));
    expect(JSON.parse(shown)).toEqual({ before, exhausted });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
