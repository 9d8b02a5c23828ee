import { type Argv, CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import { childrenOf, type RunningStreams } from "../../fakes/zfs/child.ts";
import { later } from "../../waiting.ts";

/** The source or the target of a copy. */
export type CopySide = "source" | "target";

/** What becomes of a step: it has no effect, or it has its effect and its outcome is lost; undefined: nothing special. */
type Fate = "before" | "after" | undefined;

/** The life of a process of csimux, of which each command on a storage, and each request to one, is a step. */
export interface CopyLife {
  /** What becomes of the next step on a side. After the process has died, nothing has an effect. */
  next(side: CopySide): Fate;
  /** Awaited before each step: a process that was suspended continues with it. */
  awake: () => Promise<void>;
  /** Aborted when the process dies: the kernel ends its programs (setpriv(1), --pdeathsig). */
  readonly died: AbortSignal;
  isDead(): boolean;
}

/** A process that dies at its n-th step on a side; without such a step, it lives. */
export function copyLife(last?: {
  readonly side: CopySide;
  readonly step: number;
  readonly when: "before" | "after";
}): CopyLife {
  const counts = { source: 0, target: 0 };
  const death = new AbortController();
  let isDead = false;
  return {
    next(side) {
      if (isDead) return "before";
      if (++counts[side] !== last?.step || side !== last.side) return undefined;
      isDead = true;
      // A program that this step starts runs for a moment.
      later(() => death.abort(), 0);
      return last.when;
    },
    awake: async () => {},
    died: death.signal,
    isDead: () => isDead,
  };
}

const lost = ([program]: Argv): CommandError => new CommandError("fake", program, "lost", "the process was killed");

/** The commands that a process runs on a side, and the programs of its streams there. */
export function livingRunner(
  runner: CommandRunner,
  streams: RunningStreams,
  side: CopySide,
  life: CopyLife,
): CommandRunner {
  const step = async <T>(argv: Argv, work: () => Promise<T>): Promise<T> => {
    await life.awake();
    const fate = life.next(side);
    if (fate === "before") throw lost(argv);
    const result = await work();
    if (fate === "after") throw lost(argv);
    return result;
  };
  const child = childrenOf(runner.run, streams);
  return {
    where: runner.where,
    run: (command, signal) => step(command.argv, () => runner.run(command, signal)),
    child: (argv, ends, signal) => step(argv, () => child(argv, ends, AbortSignal.any([signal, life.died]))),
  };
}
