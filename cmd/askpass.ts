import { askForSecret, askpassVariable } from "../lib/io/ssh/askpass.ts";
import type { Host } from "./host.ts";

/**
 * Whether ssh started this process (SSH_ASKPASS) for a password or passphrase; then it passes it to ssh, if there is one.
 * csimux is its own askpass program, so that no secret appears in an argv, in an environment or on a disk.
 */
export async function answersSsh(host: Host): Promise<boolean> {
  const socket = host.env[askpassVariable];
  if (!socket) return false;
  const word = await askForSecret(socket, process.argv.slice(2).join(" "));
  if (word === undefined) process.exitCode = 1;
  else host.out(`${word}\n`);
  return true;
}
