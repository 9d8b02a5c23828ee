import { chmod, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { say } from "../say.ts";
import { type Accelerator, controlSocket, endProcess, startMachine } from "./machine.ts";
import { type Image, recipe } from "./place.ts";
import { openQmp } from "./qmp.ts";
import { type Ssh, sshTo, waitForSsh } from "./ssh.ts";

/** The file with the frozen machine's memory. */
export const frozenState = (image: Image): string => join(image.folder, "state");

/** The image's disks. Guests only read them and write to separate files. */
export const disksOf = (image: Image): readonly [string, string] => [
  join(image.folder, "root.qcow2"),
  join(image.folder, "pool.qcow2"),
];

async function saveState(folder: string, file: string): Promise<void> {
  const qmp = await openQmp(controlSocket(folder));
  try {
    await qmp.execute("migrate-set-parameters", { "max-bandwidth": 8 * 1024 ** 3 });
    await qmp.execute("migrate", { uri: `exec:cat > '${file}'` });
    for (;;) {
      const { status } = (await qmp.execute("query-migrate")) as { readonly status?: string };
      if (status === "completed") break;
      if (status === "failed" || status === "cancelled") throw new Error(`the machine could not be frozen: ${status}`);
      await pause(200);
    }
    await qmp.execute("quit").catch(() => {});
  } finally {
    qmp.close();
  }
}

async function prepare(ssh: Ssh): Promise<void> {
  const script = await readFile(join(recipe, "first-boot.sh"), "utf8");
  const result = await ssh.run(["sh", "-ec", script], { timeoutMs: 600_000 });
  if (result.code !== 0) throw new Error(`first boot: ${result.stdout}${result.stderr}`);
  if (result.stdout.trim() !== "") say(`first boot: ${result.stdout.trim()}`);
}

/** Boots the new image once, prepares it and freezes it, so that guests resume in seconds instead of booting for a minute. */
export async function freeze(image: Image, accelerator: Accelerator): Promise<void> {
  const folder = join(image.folder, "first-boot");
  await mkdir(folder, { recursive: true });
  const disks = disksOf(image);
  const number = 6;
  const machine = startMachine({ number, accelerator, image: image.folder, folder, disks, tethered: true });
  const ssh = sshTo(image, number);
  try {
    await waitForSsh(ssh, machine, 600_000);
    await prepare(ssh);
    await ssh.close();
    await saveState(folder, frozenState(image));
  } finally {
    await ssh.close();
    if (machine.pid !== undefined) await endProcess(machine.pid);
  }
  for (const file of [...disks, frozenState(image)]) await chmod(file, 0o444);
  await rm(folder, { recursive: true, force: true });
}
