import { appendFile } from "node:fs/promises";
import { spawned } from "../spawned.ts";

/** The build of an image. */
export interface Build {
  /** Runs a program to its end, with its output in the log; throws with the last lines if it fails. */
  run(argv: readonly [string, ...string[]]): Promise<void>;
}

/** A build with the output of its programs in the file `log`. */
export function loggedBuild(log: string): Build {
  return {
    async run(argv) {
      // A killed process cannot end its children, so the kernel does (prctl(2), PR_SET_PDEATHSIG).
      const tethered = ["setpriv", "--pdeathsig", "KILL", ...argv] as const;
      const result = await spawned(tethered, { cwd: "/", timeoutMs: 1_800_000 });
      const output = `$ ${argv.join(" ")}\n${result.stdout}${result.stderr}`;
      await appendFile(log, output);
      if (result.code === 0) return;
      throw new Error(
        `${argv[0]} failed with code ${result.code}, see ${log}:\n${output.split("\n").slice(-15).join("\n")}`,
      );
    },
  };
}
