import type { CommandRunner } from "./runner.ts";

/** The folders of programs on common distributions; the last one is NixOS's. */
const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

/**
 * Runs the host's programs in the host's root, which is mounted at `root` (chroot(1)); paths in the arguments are the
 * host's, and the command keeps its environment. Exit code 127: the program does not exist.
 */
export const hostRunner = (runner: CommandRunner, root: string): CommandRunner => ({
  where: `${runner.where} through chroot`,
  run: ({ argv, ...rest }, signal) =>
    runner.run({ ...rest, argv: ["chroot", root, "env", `PATH=${hostPath}`, ...argv] }, signal),
});
