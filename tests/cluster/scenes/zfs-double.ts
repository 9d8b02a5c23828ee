import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { usualPaths } from "../../../lib/drivers/zfs/targets/open-targets.ts";
import { fakeZfs } from "../../fakes/zfs/pools.ts";
import { putModelledZstream } from "../../fakes/zfs/zstream.ts";
import { startSshd } from "../../io/ssh/sshd.ts";

// A storage host: an sshd whose sessions find the model of zfs on their PATH. Started as zfs-double.ts HOST PORT FILE; the file says how to
// reach it. Ends with SIGTERM.

const [, , host = "", port = "", file = ""] = process.argv;
const fake = await fakeZfs();
const { folder, bin } = fake;
putModelledZstream(bin, folder);
// The targets of LIO are a model, too. csimux asks for the paths of a real host, and gets those of the model.
const own: Readonly<Record<string, string>> = {
  [usualPaths.lio]: "lio",
  ...Object.fromEntries(usualPaths.lioSaved.map(path => [path, "lio-saveconfig.json"])),
  [usualPaths.lioLock]: "targetcli.lock",
  [usualPaths.blocks]: "blocks",
  [usualPaths.udev]: "udev",
  [usualPaths.devices]: "dev",
};
const moved = Object.entries(own).map(([path, name]) => `s,${path},${folder}/${name},g`);
const python = `/usr/bin/python3 -I -S '${bin}/configfs.py' '${folder}'`;
await writeFile(join(bin, "python3"), `#!/bin/sh\nsed '${moved.join(";")}' | ${python} "$@"\n`);
const { hostKey, clientKey, stop } = await startSshd({
  at: { host, port: Number(port) },
  env: { PATH: `${bin}:/usr/bin:/bin` },
});
await writeFile(file, JSON.stringify({ folder, hostKey, clientKey }));
process.on("SIGTERM", async () => {
  await stop();
  await fake.close();
  process.exit(0);
});
