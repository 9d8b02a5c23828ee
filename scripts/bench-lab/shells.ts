import { spawn } from "node:child_process";
import type { Ssh } from "../lab/ssh.ts";

/** A way to have commands done on the storage host by hand. */
export interface Shell {
  /** Runs one line of shell text; throws when it fails. */
  run(line: string): Promise<string>;
  close(): void;
}

/** One shell over one ssh connection that stands: nothing is quicker. */
export function standingShell(ssh: Ssh): Shell {
  const [program, ...args] = ssh.argv;
  const child = spawn(program, [...args, "exec /bin/sh"], { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  let heard = (): void => {};
  child.stdout.setEncoding("utf8").on("data", chunk => {
    text += chunk;
    heard();
  });
  let turn: Promise<unknown> = Promise.resolve();
  const once = (line: string): Promise<string> =>
    new Promise((resolve, reject) => {
      text = "";
      heard = () => {
        const end = /^(.*)--done (\d+)\n$/s.exec(text);
        if (end?.[2] === "0") resolve(end[1] ?? "");
        else if (end) reject(new Error(`${line}: exit code ${end[2]}`));
      };
      child.stdin.write(`( ${line}\n) </dev/null; echo "--done $?"\n`);
    });
  return {
    run: line => {
      const done = turn.then(() => once(line));
      turn = done.catch(() => {});
      return done;
    },
    close: () => child.stdin.end(),
  };
}

/** A channel of the connection that is held for each command, as a client of ssh does that knows no better. */
export const channels = (ssh: Ssh): Shell => ({
  async run(line) {
    const { code, stdout, stderr } = await ssh.run(["sh", "-c", line]);
    if (code !== 0) throw new Error(`${line}: exit code ${code}: ${stderr}`);
    return stdout;
  },
  close() {},
});
