import { type Call, withSignal } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { OperationContext } from "./operation-context.ts";

/** How often a base folder is checked while a tool works on it, and after what silence the tool is abandoned, in milliseconds. */
export interface WatchSettings {
  readonly everyMs: number;
  readonly silentMs: number;
}

/** A restarted server answers within a few minutes, and the copy then continues. */
const usual: WatchSettings = { everyMs: 30_000, silentMs: 300_000 };

/**
 * Runs a tool in one of the connection's slots while the base folder answers, however long that takes. On a hard mount without
 * its server the tool would hold its slot until the server is back, and the caller's signal does not end it, because retries
 * wait for the same work. Throws "unavailable" if the tool is abandoned.
 */
export const whileAnswering = <T>(
  context: OperationContext,
  call: Call,
  work: (call: Call) => Promise<T>,
  attention: WatchSettings = usual,
): Promise<T> => context.slots.run(() => attended(context, call, work, attention), call.signal);

async function attended<T>(
  { connection, files, layout }: OperationContext,
  call: Call,
  work: (call: Call) => Promise<T>,
  { everyMs, silentMs }: WatchSettings,
): Promise<T> {
  const silence = new AbortController();
  let askedAt: number | undefined;
  const look = (): void => {
    if (askedAt === undefined) {
      askedAt = performance.now();
      // A failure is an answer, too.
      const answered = (): void => {
        askedAt = undefined;
      };
      files.entry(`${layout.base}/.`).then(answered, answered);
    } else if (performance.now() - askedAt >= silentMs) silence.abort(silent(connection, silentMs));
  };
  const timer = setInterval(look, everyMs);
  timer.unref();
  try {
    return await work(withSignal(call, AbortSignal.any([call.signal, silence.signal])));
  } catch (error) {
    throw silence.signal.aborted ? silence.signal.reason : error;
  } finally {
    clearInterval(timer);
  }
}

const silent = (connection: string, ms: number): CsiError =>
  new CsiError(
    "unavailable",
    `connection "${connection}": the base folder has not answered for ${ms / 60_000} minutes, so the work on it was abandoned; check its server; retrying`,
  );
