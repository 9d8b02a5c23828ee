import { type Call, withSignal } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { busy, endOf } from "../core/locks.ts";
import { within } from "../core/time.ts";

interface Job {
  readonly arguments: string;
  readonly done: Promise<unknown>;
  /** When it began (Date.now()). */
  readonly since: number;
}

/**
 * Operations that outlive their call: a copy that takes ten minutes is not restarted by each retry of a 15-second call. A call with
 * equal arguments joins the running job; one with other arguments waits for a moment, and is then refused.
 */
export class Jobs {
  readonly #running = new Map<string, Job>();
  readonly #stop = new AbortController();
  readonly #waitMs: number;

  /** `waitMs`: how long a call waits for an operation that is in its way. Most end sooner, and Kubernetes shows a refusal as a warning. */
  constructor(waitMs = 5_000) {
    this.#waitMs = waitMs;
  }

  /**
   * Runs `work` as the job `key`, or joins the equal one. The work's call has the signal of the process, not of the client. If the
   * caller leaves first, throws the reason of its signal: "deadline-exceeded" at its deadline, "unavailable" if csimux stops. Throws
   * "aborted" if a job of this key with other arguments, or what holds a lock that the work needs, does not end soon. The work is then done
   * again from its beginning, like that of a repeated call, so that nothing is held meanwhile. A caller that has left starts nothing.
   */
  async run<T>(key: string, args: string, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    const until = performance.now() + this.#waitMs;
    for (;;) {
      if (call.signal.aborted) throw whyLeft(call.signal, "the call ended before the operation began");
      try {
        return await whileWaiting(this.#joined(key, args, call, work), call.signal, key);
      } catch (error) {
        const [end, left] = [endOf(error), until - performance.now()];
        if (!end || left <= 0) throw error;
        await whileWaiting(within(end, left), call.signal, key);
      }
    }
  }

  /** The running jobs by key, the oldest first. */
  running(): readonly { readonly what: string; readonly since: number }[] {
    return [...this.#running].map(([what, { since }]) => ({ what, since }));
  }

  /** Aborts all jobs and waits up to `limitMs` milliseconds for them to end. Returns the keys of those still running. */
  async stop(limitMs: number): Promise<readonly string[]> {
    this.#stop.abort(new CsiError("unavailable", "csimux is stopping; retry"));
    await within(Promise.allSettled([...this.#running.values()].map(job => job.done)), limitMs);
    return [...this.#running.keys()];
  }

  async #joined<T>(key: string, args: string, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    const running = this.#running.get(key);
    if (running && running.arguments !== args) throw busy(key, running.done);
    return running ? (running.done as Promise<T>) : this.#start(key, args, call, work);
  }

  #start<T>(key: string, args: string, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    const own = withSignal(call, this.#stop.signal);
    // One tick later, so that the entry below exists before the work can end.
    const done = Promise.resolve()
      .then(() => {
        own.signal.throwIfAborted();
        return work(own);
      })
      .finally(() => this.#running.delete(key));
    // The failure of a job without callers must not end the process.
    done.catch(error => call.log.debug(`${key} ended`, { reason: String(error) }));
    this.#running.set(key, { arguments: args, done, since: Date.now() });
    return done;
  }
}

async function whileWaiting<T>(done: Promise<T>, signal: AbortSignal, key: string): Promise<T> {
  let leave: (() => void) | undefined;
  const gone = new Promise<never>((_, reject) => {
    leave = () => reject(whyLeft(signal, `"${key}" is still in progress`));
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
  try {
    return await Promise.race([done, gone]);
  } finally {
    if (leave) signal.removeEventListener("abort", leave);
  }
}

/** Why a caller no longer waits; `late` is the message at its deadline. */
function whyLeft({ reason }: AbortSignal, late: string): CsiError {
  const other = reason instanceof CsiError && reason.code !== "deadline-exceeded";
  return other ? reason : new CsiError("deadline-exceeded", late);
}

/**
 * A text that is equal for equal requests. The entries of a map travel in any order (protocol buffers, "Maps"), and Go clients change
 * it with every retry.
 */
export const fingerprint = (request: unknown): string => JSON.stringify(plain(request));

/** For JSON.stringify, which is slow with a function of its own: sizes as text, the entries of an object in the order of their keys. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  const entries = Object.entries(value).map(([key, each]) => [key, plain(each)] as const);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}
