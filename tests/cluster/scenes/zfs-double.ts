import { writeFile } from "node:fs/promises";
import { fakeZfs } from "../../fakes/zfs/pools.ts";
import { startSshd } from "../../io/ssh/sshd.ts";

// A storage host: an sshd whose sessions find the model of zfs on their PATH. Started as zfs-double.ts HOST PORT FILE; the file says how to
// reach it. Ends with SIGTERM.

const [, , host = "", port = "", file = ""] = process.argv;
const fake = await fakeZfs();
const { hostKey, clientKey, stop } = await startSshd({
  at: { host, port: Number(port) },
  env: { PATH: `${fake.bin}:/usr/bin:/bin` },
});
await writeFile(file, JSON.stringify({ folder: fake.folder, hostKey, clientKey }));
process.on("SIGTERM", async () => {
  await stop();
  await fake.close();
  process.exit(0);
});
