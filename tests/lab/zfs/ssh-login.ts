import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../run.ts";

/** Accounts of this machine that csimux logs in to: `csi` has sudo, `csh` too and no POSIX shell. */
export type User = "root" | "csi" | "csh";

/** A key of the tests for every account of this machine. */
export interface Login {
  /** Lines of a connection file: its block `sshConnection`. `more` are further lines of the block, each with its indentation. */
  lines(user: User, host?: string, more?: readonly string[]): readonly string[];
  /** Removes the key from the accounts. */
  remove(): Promise<void>;
}

const comment = "csimux-zfs-lab";
const authorized = ["/root", "/home/csi", "/home/csh"].map(home => `${home}/.ssh/authorized_keys`);

/** Creates a key and authorizes it on this machine. */
export async function makeLogin(): Promise<Login> {
  const folder = await mkdtemp(join(tmpdir(), "login-"));
  await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", join(folder, "key")]);
  const line = (await readFile(join(folder, "key.pub"), "utf8")).trim();
  for (const file of authorized) await run(["sh", "-c", 'echo "$1" >>"$2"', "allow", line, file]);
  const key = await readFile(join(folder, "key"), "utf8");
  const hostKey = (await readFile("/etc/ssh/ssh_host_ed25519_key.pub", "utf8")).split(" ").slice(0, 2).join(" ");
  await rm(folder, { recursive: true });
  return {
    lines: (user, host = "127.0.0.1", more = []) => [
      "sshConnection:",
      `  host: ${host}`,
      `  username: ${user}`,
      // On an emulated processor, a login takes seconds, and more on a busy machine.
      "  readyTimeout: 120000",
      `  hostKey: ${hostKey}`,
      ...more,
      "  privateKey: |",
      ...key
        .trim()
        .split("\n")
        .map(each => `    ${each}`),
    ],
    async remove() {
      for (const file of authorized) await run(["sed", "-i", `/${comment}/d`, file]);
    },
  };
}
