import { spawn } from "node:child_process";
import { type Figure, median } from "../figures.ts";

/** A shell on a storage host over one ssh connection. */
export function shellOn([program, ...args]: readonly [string, ...string[]]) {
  const child = spawn(program, [...args, "exec /bin/sh"], { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  let received = (): void => {};
  child.stdout.setEncoding("utf8").on("data", chunk => {
    text += chunk;
    received();
  });
  /** Resolves with what the line prints. */
  const run = (line: string): Promise<string> =>
    new Promise((resolve, reject) => {
      text = "";
      received = () => {
        const code = /--done (\d+)\n$/.exec(text)?.[1];
        if (code === "0") resolve(text);
        else if (code !== undefined) reject(new Error(`${line.slice(0, 500)}: exit code ${code}`));
      };
      child.stdin.write(`( ${line}\n) </dev/null; echo "--done $?"\n`);
    });
  return { run, close: () => child.stdin.end() };
}

export type Shell = ReturnType<typeof shellOn>;

interface Measured {
  readonly ms: number;
  readonly processes: number;
}

/** The milliseconds of some work, and the processes that the host starts for it; the shell that counts them is two. */
async function measured(shell: Shell, work: () => Promise<unknown>): Promise<Measured> {
  // proc_stat(5)
  const started = async () => Number(/^processes (\d+)$/m.exec(await shell.run("cat /proc/stat"))?.[1]);
  const before = await started();
  const from = performance.now();
  await work();
  const ms = performance.now() - from;
  return { ms, processes: (await started()) - before - 2 };
}

const middle = (all: readonly Measured[], key: keyof Measured): number => median(all.map(each => each[key]));

/** What is measured in turns. */
export interface Compared {
  readonly title: string;
  /** The operation through csimux, and the number of scripts that csimux has sent until now. */
  readonly own: (name: string) => Promise<unknown>;
  readonly sent: () => Promise<number>;
  readonly bare: (name: string) => string;
  /** Absent where it takes too long. It runs in every fourth round only, because it takes the longest. */
  readonly tool?: ((name: string) => string) | undefined;
  readonly targets: { readonly ratio: number; readonly trips?: number; readonly processes?: number };
}

/** Measures an operation in turns with the bare commands, so that what else the machine does meets both. `peer` is theirs. */
export async function compared(shell: Shell, what: Compared, times: number): Promise<readonly Figure[]> {
  const own: Measured[] = [];
  const floor: Measured[] = [];
  const tool: Measured[] = [];
  let trips = 0;
  for (let round = 0; round < times; round++) {
    floor.push(await measured(shell, () => shell.run(what.bare(`bare-${round}`))));
    const before = await what.sent();
    own.push(await measured(shell, () => what.own(`own-${round}`)));
    trips += (await what.sent()) - before;
    const line = round % 4 === 0 && what.tool?.(`tool-${round}`);
    if (line) tool.push(await measured(shell, () => shell.run(line)));
  }
  const { ratio, trips: most, processes } = what.targets;
  const value = middle(own, "ms");
  const peer = middle(floor, "ms");
  const besides = tool.length === 0 ? [] : [{ what: "  with targetcli", value, unit: "ms", peer: middle(tool, "ms") }];
  return [
    { what: what.title, value, unit: "ms", peer, target: ratio * peer },
    ...besides,
    { what: "  round trips", value: trips / times, unit: "", ...(most && { target: most }) },
    {
      what: "  processes on the host",
      value: middle(own, "processes"),
      unit: "",
      peer: middle(floor, "processes"),
      ...(processes && { target: processes }),
    },
  ];
}
