import { randomBytes } from "node:crypto";
import type { DescMethod, DescService, Message } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { RepeatedLines } from "../core/log.ts";
import type { CallBegun, CallEnd, CallObserver } from "../core/observer.ts";
import { masked, withoutKnownSecrets } from "../core/secrets.ts";
import { withoutSecrets } from "./redact.ts";

/** A service whose methods take a Call where Connect's take a HandlerContext. */
export type Instrumented<T> = {
  [K in keyof T]: T[K] extends (request: infer Request, context: HandlerContext) => infer Answer
    ? (request: Request, call: Call) => Answer
    : T[K];
};

type Mapping = Readonly<Record<string, unknown>>;
type Method = (request: Message & Mapping, call: Call) => Promise<Mapping>;
type Streaming = (request: Message & Mapping, call: Call) => AsyncIterable<Mapping>;

/** Methods that are polled or called at every start: not worth a log line at "info". */
const quiet: ReadonlySet<string> = new Set([
  "Probe",
  "GetPluginInfo",
  "GetPluginCapabilities",
  "ControllerGetCapabilities",
  "NodeGetCapabilities",
  "NodeGetVolumeStats",
  "GetCapacity",
]);

/** Where calls are logged; `verbose` if debug lines are written at all. `calls` receives every call. */
export interface CallObservation {
  readonly log: Log;
  readonly verbose: boolean;
  readonly calls?: CallObserver;
}

/**
 * The service as the server mounts it. Only here is a Call created, one log line written at the end of each RPC, and
 * secrets hidden. An error that is not a CsiError becomes "internal" with a fixed text; the log has the details.
 */
export function instrument<S extends DescService>(
  service: S,
  implementation: Partial<Instrumented<ServiceImpl<S>>>,
  observation: CallObservation,
): Partial<ServiceImpl<S>> {
  const methods: Record<string, unknown> = {};
  const given = implementation as Record<string, (Method & Streaming) | undefined>;
  for (const method of service.methods) {
    const run = given[method.localName];
    if (run)
      methods[method.localName] =
        method.methodKind === "unary" ? observed(method, run, observation) : observedStream(method, run, observation);
  }
  return methods as Partial<ServiceImpl<S>>;
}

function observed(method: DescMethod, run: Method, { log, verbose, calls }: CallObservation) {
  const silent = !verbose && quiet.has(method.name);
  return async (request: Message & Mapping, context: HandlerContext) => {
    const call = new RequestCall(method, request, context, log);
    const end = calls?.(call.begun());
    if (verbose) call.log.debug("called", { method: method.name, request: withoutSecrets(method.input, request) });
    try {
      const answer = await run(request, call);
      if (!silent) call.log[quiet.has(method.name) ? "debug" : "info"]("answered", call.facts("ok", answer));
      end?.(call.end("ok", undefined, answer));
      return answer;
    } catch (error) {
      const failure = failed(call, error);
      end?.(call.end(failure.code, failure.message));
      throw failure;
    }
  };
}

/** Like `observed`, for a stream of answers: one line at its end, also if the client ends it. */
function observedStream(method: DescMethod, run: Streaming, { log, verbose, calls }: CallObservation) {
  return async function* (request: Message & Mapping, context: HandlerContext) {
    const call = new RequestCall(method, request, context, log);
    const end = calls?.(call.begun());
    if (verbose) call.log.debug("called", { method: method.name, request: withoutSecrets(method.input, request) });
    let messages = 0;
    let isLeft = true;
    try {
      for await (const answer of run(request, call)) {
        messages++;
        yield answer;
      }
      isLeft = false;
      call.log.info("answered", { ...call.facts("ok"), messages });
      end?.(call.end("ok", undefined));
    } catch (error) {
      isLeft = false;
      const failure = failed(call, error);
      end?.(call.end(failure.code, failure.message));
      throw failure;
    } finally {
      if (isLeft) {
        call.log.info("left by its client", { ...call.facts("aborted"), messages });
        end?.(call.end("aborted", undefined));
      }
    }
  };
}

/** Repeated failures of polled methods: each is logged once and then counted. */
const polled = new RepeatedLines();

/**
 * What the cluster shows instead of our answer, so that a search of this log finds it (kube-scheduler, volume binding).
 */
const shownAs: Readonly<Record<string, string>> = {
  GetCapacity: 'Kubernetes has no capacity for this class and shows "did not have enough free storage" for its pods',
};

/** Logs a failed call and returns the error for the client. */
function failed(call: RequestCall, error: unknown): CsiError {
  if (!(error instanceof CsiError)) {
    const reason = error instanceof Error ? error.stack : String(error);
    call.log.error("failed", { ...call.facts("internal"), reason });
    return new CsiError("internal", `internal error; the log of csimux has the details of request ${call.id}`);
  }
  const line = { ...call.facts(error.code), reason: error.message, cause: causeOf(error) };
  if (error.code === "internal") call.log.error("failed", line);
  // Not a failure: the work continues, and the caller asks again until it is done.
  else if (error.code === "aborted") call.log.info("in progress", line);
  else if (!quiet.has(call.method)) call.log.warn("failed", line);
  else {
    const times = polled.due(`${call.method} ${error.code} ${error.message}`);
    const more = { ...(shownAs[call.method] && { means: shownAs[call.method] }), ...(times && { times }) };
    if (times !== undefined) call.log.warn("failed", { ...line, ...more });
  }
  const shown = withoutKnownSecrets(error.message);
  return shown === error.message ? error : new CsiError(error.code, shown, { cause: error });
}

const boot = randomBytes(3).toString("hex");
let calls = 0;

/** Created for every call; computes id, log and signal on demand because most calls do not use them. */
class RequestCall implements Call {
  readonly #start = performance.now();
  readonly #method: DescMethod;
  readonly #request: Mapping;
  readonly #context: Pick<HandlerContext, "signal">;
  readonly #common: Log;
  #id: string | undefined;
  #log: Log | undefined;

  constructor(method: DescMethod, request: Mapping, context: Pick<HandlerContext, "signal">, log: Log) {
    this.#method = method;
    this.#request = request;
    this.#context = context;
    this.#common = log;
  }

  get id(): string {
    this.#id ??= `${boot}-${(++calls).toString(36)}`;
    return this.#id;
  }

  get log(): Log {
    this.#log ??= this.#common.with({ id: this.id });
    return this.#log;
  }

  get secrets(): Readonly<Record<string, string>> {
    return (this.#request["secrets"] as Readonly<Record<string, string>> | undefined) ?? {};
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get method(): string {
    return this.#method.name;
  }

  begun(): CallBegun {
    const connection = connectionOf(this.#request, undefined);
    return { method: this.#method.name, connection, object: objectOf(this.#request) };
  }

  end(code: CallEnd["code"], message: string | undefined, answer?: Mapping): CallEnd {
    const connection = connectionOf(this.#request, answer);
    const shown = message === undefined ? undefined : masked(message, Object.values(this.secrets));
    return { connection, code, message: shown, seconds: (performance.now() - this.#start) / 1000 };
  }

  /** The fields of the log line at the end of the call; `ms` since its start. */
  facts(code: string, answer?: Mapping): object {
    const ms = Math.round((performance.now() - this.#start) * 100) / 100;
    const connection = connectionOf(this.#request, answer);
    return { method: this.#method.name, object: objectOf(this.#request), connection, code, ms };
  }
}

/** The connection of a request: from the answer, else from the handle in the request, else from its class. */
function connectionOf(request: Mapping, answer: Mapping | undefined): string | undefined {
  const made = answer?.["volume"] as Mapping | undefined;
  const { volumeId, sourceVolumeId, snapshotId, targetSnapshotId } = request;
  for (const id of [made?.["volumeId"], volumeId, sourceVolumeId, snapshotId, targetSnapshotId]) {
    if (typeof id !== "string") continue;
    const handle = parseHandle(id, "volume") ?? parseHandle(id, "snapshot");
    if (handle) return handle.connection;
  }
  return (request["parameters"] as Mapping | undefined)?.["connection"] as string | undefined;
}

/** The volume or snapshot of a request as the cluster names it: the name of a new one, else the handle. */
function objectOf({ name, snapshotId, targetSnapshotId, volumeId }: Mapping): string | undefined {
  const [named] = [name, snapshotId, targetSnapshotId, volumeId].filter(id => typeof id === "string" && id !== "");
  // The longest name or handle that CSI allows.
  return typeof named === "string" ? named.slice(0, 128) : undefined;
}

/** The cause of a failure, for the log only: with the stack if it is a defect, without for a foreseen failure. */
function causeOf({ cause, code }: CsiError): string | undefined {
  if (cause === undefined) return undefined;
  if (!(cause instanceof Error)) return String(cause);
  const isDefect = code === "internal" || cause instanceof TypeError || cause instanceof RangeError;
  return isDefect ? (cause.stack ?? cause.message) : cause.message;
}
