import type { Argv, CommandRunner } from "./runner.ts";

/** Where programs are on common distributions; the last one is NixOS's. */
const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

/** Runs the host's programs in the host's root, which is mounted at `root` (chroot(1)). Exit code 127: there is no such program. */
export const hostRunner = (runner: CommandRunner, root: string): CommandRunner => ({
  where: `host at ${root}`,
  run: (command, signal) => {
    const argv: Argv = ["chroot", root, "env", `PATH=${hostPath}`, ...command.argv];
    return runner.run({ ...command, argv }, signal);
  },
});
