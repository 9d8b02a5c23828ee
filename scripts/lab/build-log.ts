import { appendFile } from "node:fs/promises";
import { spawned } from "../spawned.ts";
import { say } from "./say.ts";

/** A build of an image under way. */
export interface Build {
  say(text: string): void;
  /** Runs a program to its end, with its output in the build's log; throws with the last lines when it fails. */
  run(argv: readonly [string, ...string[]]): Promise<void>;
}

/** A build whose programs write into the file `log`. */
export function loggedBuild(log: string): Build {
  return {
    say,
    async run(argv) {
      // Whoever is killed cannot end what it started, so the kernel does (prctl(2), PR_SET_PDEATHSIG).
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
