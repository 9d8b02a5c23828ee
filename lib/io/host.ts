import { type CommandRunner, wrapped } from "./runner.ts";

/** Where programs are on common distributions; the last one is NixOS's. */
const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

/**
 * Runs the host's programs in the host's root, which is mounted at `root` (chroot(1)); paths in the arguments are the host's.
 * Exit code 127: there is no such program.
 */
export const hostRunner = (runner: CommandRunner, root: string): CommandRunner =>
  wrapped(runner, ["chroot", root, "env", `PATH=${hostPath}`]);
