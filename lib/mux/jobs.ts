import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { within } from "../core/time.ts";

interface Job {
  readonly arguments: string;
  readonly done: Promise<unknown>;
  /** When it began (Date.now()). */
  readonly since: number;
}

/**
 * Changing operations outlive the call that asked for them: a copy that takes ten minutes is not begun anew by each
 * repeat of a 15-second call. A repeat with equal arguments joins the running job; other arguments are refused.
 */
export class Jobs {
  readonly #running = new Map<string, Job>();
  readonly #stop = new AbortController();

  /**
   * Runs `work` as the job `key`, or joins the equal one. The work's call carries the signal of the process, not of the client.
   * When the caller leaves while the work continues, throws the reason of the caller's signal: "deadline-exceeded" when its time is
   * up, "unavailable" when csimux stops. Throws "aborted" when a job of this key with other arguments is running. A caller that has
   * left already starts nothing.
   */
  async run<T>(key: string, args: string, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    if (call.signal.aborted) throw whyLeft(call.signal, "the call ended before the operation began; repeat the call");
    const running = this.#running.get(key);
    if (running && running.arguments !== args) {
      throw new CsiError("aborted", `another operation on "${key}" is in progress; repeat the call`);
    }
    const done = running ? (running.done as Promise<T>) : this.#start(key, args, call, work);
    return await whileWaiting(done, call.signal, key);
  }

  /** What is running now, the oldest first; each is named by its key. */
  running(): readonly { readonly what: string; readonly since: number }[] {
    return [...this.#running].map(([what, { since }]) => ({ what, since }));
  }

  /** Aborts what is running and waits up to `limitMs` milliseconds for it to end. Returns the keys of the jobs that have not. */
  async stop(limitMs: number): Promise<readonly string[]> {
    this.#stop.abort(new CsiError("unavailable", "csimux is stopping; repeat the call"));
    await within(Promise.allSettled([...this.#running.values()].map(job => job.done)), limitMs);
    return [...this.#running.keys()];
  }

  #start<T>(key: string, args: string, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    const own: Call = { id: call.id, log: call.log, secrets: call.secrets, signal: this.#stop.signal };
    // One tick later, so that the entry below stands before the work can end.
    const done = Promise.resolve()
      .then(() => {
        own.signal.throwIfAborted();
        return work(own);
      })
      .finally(() => this.#running.delete(key));
    // A job whose callers have all gone must not end the process by failing.
    done.catch(error => call.log.debug(`${key} ended`, { reason: String(error) }));
    this.#running.set(key, { arguments: args, done, since: Date.now() });
    return done;
  }
}

async function whileWaiting<T>(done: Promise<T>, signal: AbortSignal, key: string): Promise<T> {
  let leave: (() => void) | undefined;
  const gone = new Promise<never>((_, reject) => {
    leave = () => reject(whyLeft(signal, `"${key}" is still in progress; repeat the call`));
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
  try {
    return await Promise.race([done, gone]);
  } finally {
    if (leave) signal.removeEventListener("abort", leave);
  }
}

/** Why a caller no longer waits; `late` is the message for one whose time is up. */
function whyLeft({ reason }: AbortSignal, late: string): CsiError {
  const other = reason instanceof CsiError && reason.code !== "deadline-exceeded";
  return other ? reason : new CsiError("deadline-exceeded", late);
}
