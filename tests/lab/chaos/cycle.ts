import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import type { Fault } from "./fault.ts";
import type { Kubelet } from "./kubelet.ts";
import type { Ledger } from "./ledger.ts";

type Random = (below: number) => number;

/** The shortest and longest duration of a fault, and the latest time of a kill within a step, in milliseconds. */
const leastMs = 500;
const mostMs = 8_000;
const intoStepMs = 3_000;

/** A process that stays in a folder of the volume. */
function busy(folder: string): Fault {
  let child: ChildProcess | undefined;
  return {
    name: "a process is in the volume",
    hurts: false,
    begin: async () => {
      child = spawn("sleep", ["600"], { cwd: folder, stdio: "ignore" });
      child.on("error", () => {});
    },
    end: async () => child?.kill("SIGKILL"),
  };
}

const killed = (kubelet: Kubelet): Fault => ({
  name: "csimux is killed",
  hurts: false,
  begin: async () => kubelet.kill(),
  end: async () => {},
});

const killedLater = (kubelet: Kubelet, afterMs: number): Fault => ({
  name: `csimux is killed ${afterMs} ms into the step`,
  hurts: false,
  begin: async () => void setTimeout(() => kubelet.kill(), afterMs),
  end: () => pause(Math.max(0, afterMs - leastMs)),
});

/** Steps of a volume's life, each with the folder that a process can be in before it. */
const steps = ["stage", "publish", "use", "unpublish", "unstage"] as const;
const folderBefore = {
  stage: undefined,
  publish: "staging",
  use: "target",
  unpublish: "target",
  unstage: "staging",
} as const;

/** One life of the volume with one fault before one of its steps. Throws if data are lost or a step never succeeds. */
export async function cycle(
  name: string,
  kubelet: Kubelet,
  ledger: Ledger,
  faults: readonly Fault[],
  random: Random,
): Promise<string> {
  const at = steps[random(steps.length)] ?? "stage";
  const place = folderBefore[at];
  const all = [
    ...faults,
    killed(kubelet),
    killedLater(kubelet, random(intoStepMs)),
    ...(place ? [busy(kubelet[place])] : []),
  ];
  const fault = all[random(all.length)] ?? killed(kubelet);
  const ms = leastMs + random(mostMs - leastMs);
  let healed: Promise<unknown> = Promise.resolve();
  let hurt = false;
  const use = async (): Promise<void> => {
    const wrong = await ledger.wrong(kubelet.target);
    if (wrong === undefined && !hurt) throw new Error("the volume cannot be read although nothing happened to it");
    if (wrong && wrong.length > 0) throw new Error(`data are lost: ${wrong.join("; ")}`);
    if (!(await ledger.write(kubelet.target, name)) && !hurt)
      throw new Error("the volume cannot be written although nothing happened to it");
  };
  try {
    for (const step of steps) {
      if (step === at) {
        await fault.begin();
        hurt = fault.hurts;
        healed = pause(ms).then(fault.end);
      }
      await (step === "use" ? use() : kubelet[step]());
    }
  } finally {
    await healed;
  }
  return `${fault.name} for ${ms} ms before "${at}"`;
}
