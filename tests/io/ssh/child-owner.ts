import { readFileSync } from "node:fs";
import { openPipe } from "../../../lib/copies/stream-pipe.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { SshSettings } from "../../../lib/io/ssh/settings.ts";
import { calm, hosts } from "./rig.ts";

// Starts an endless stream over two ssh connections, and a local program; prints their process ids, and waits to be killed.

const settings = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as SshSettings;
const { child } = hosts().hosts.lease(settings).value;
const pipe = await openPipe(calm);
const all = await Promise.all([
  child?.(["cat", "/dev/zero"], { stdout: pipe.writer }, calm),
  child?.(["sh", "-c", "cat >/dev/null"], { stdin: pipe.reader }, calm),
  localRunner({ env: { PATH: "/usr/bin:/bin" } }).child?.(["sleep", "600"], {}, calm),
]);
await pipe.close();
process.stdout.write(JSON.stringify(all.map(each => each?.pid)));
setInterval(() => {}, 60_000);
