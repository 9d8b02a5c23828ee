import type { Accounts, Session } from "./accounts.ts";
import { checkRequest, wrongAnswer } from "./facts/check.ts";
import { CallError, Invalid } from "./failure.ts";
import type { Faults } from "./faults.ts";
import { type Jobs, lockOf } from "./jobs.ts";
import { methodOf } from "./methods.ts";
import type { Nas } from "./state.ts";
import type { Deliver, Intercept } from "./transport/delivery.ts";

/** What both protocols share: roles, jobs, faults, the record of requests. */

/** Everything that one system is made of. */
export interface Core {
  readonly nas: Nas;
  readonly accounts: Accounts;
  readonly jobs: Jobs;
  readonly faults: Faults;
  /** How long each request takes, in milliseconds. */
  readonly latencyMs: number;
  /** Whether the middleware that got the request has ended, so that it does nothing of it any more. */
  hasEnded(): boolean;
  /** What becomes of an answer on its way over the WebSocket. */
  mangle(answer: object, method: string): object;
  readonly deliver: Deliver;
  readonly intercept: Intercept;
  record(protocol: "rpc" | "rest", method: string, params: unknown): void;
  /** What a method answered without an error. */
  recordAnswer(method: string, result: unknown): void;
}

/** Runs a method for a session. A job's method answers the job itself. Throws CallError or Invalid. */
export async function invoked(
  { nas, accounts, jobs, faults, recordAnswer }: Core,
  session: Session | undefined,
  name: string,
  params: readonly unknown[],
) {
  const method = methodOf(nas.number, name);
  if (!method) throw new CallError("ENOMETHOD", `Method ${name} not found`);
  accounts.allow(session, method.role);
  const about = `${name} ${JSON.stringify(params)}`;
  if (await faults.isFull(session?.credential ?? "", about)) throw new CallError("ENOSPC", "out of space");
  const fullAdmin = session !== undefined && accounts.isFullAdmin(session);
  const asked = { ...nas, fullAdmin };
  const begin = (of: string, given: readonly unknown[], work: () => unknown) =>
    jobs.begin(of, given, work, { lock: lockOf(nas.number, of, given), user: session?.user, fullAdmin });
  checkRequest(nas.version, name, params);
  const run = () => {
    const result = method.run(asked, params);
    recordAnswer(name, result);
    return fitting(nas.version, name, result, params);
  };
  if (method.job) return { result: undefined, job: begin(name, params, run) };
  const result = run();
  const next = method.starts?.(asked, params);
  if (!next) return { result, job: undefined };
  return { result: begin(next.method, next.params, next.run).done.then(() => result), job: undefined };
}

/** An answer that the facts allow. Any other fails the test that runs: the double must not say what no server says. */
export function fitting(version: string, name: string, result: unknown, params?: readonly unknown[]): unknown {
  // The work of a job, which continues.
  if (typeof result === "function") return async () => fitting(version, name, await result(), params);
  const wrong = wrongAnswer(version, name, result, params);
  if (wrong.length === 0) return result;
  const text = `TrueNAS ${version} does not answer like this: ${wrong.slice(0, 5).join("; ")}`;
  void Promise.reject(new Error(text));
  throw new CallError("EFAULT", text);
}

export const knows = ({ nas }: Core, name: string): boolean => methodOf(nas.number, name) !== undefined;

/** A job that did not end well, as its caller sees it when it waits for the answer. */
export function jobResult(job: {
  readonly state: string;
  readonly result: unknown;
  readonly error: string | null;
  readonly exc_info: unknown;
}): unknown {
  if (job.state === "SUCCESS") return job.result;
  const info = job.exc_info as {
    readonly type: string;
    readonly repr: string;
    readonly extra: readonly [string, string, number][];
  } | null;
  if (info?.type === "VALIDATION") throw new Invalid(...info.extra);
  throw new CallError("EFAULT", info?.repr ?? job.error ?? job.state);
}
