import { randomBytes } from "node:crypto";
import type { DescMethod, DescService, Message } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { withoutKnownSecrets } from "../core/known-secrets.ts";
import { masked } from "../core/mask.ts";
import type { CallBegun, CallEnd, CallObserver } from "../core/observer.ts";
import { Repeats } from "../core/repeats.ts";
import { withoutSecrets } from "./redact.ts";

/** A service whose methods take a Call where Connect's take a HandlerContext. */
export type Instrumented<T> = {
  [K in keyof T]: T[K] extends (request: infer Request, context: HandlerContext) => infer Answer
    ? (request: Request, call: Call) => Answer
    : T[K];
};

type Fields = Readonly<Record<string, unknown>>;
type Method = (request: Message & Fields, call: Call) => Promise<Fields>;

/** Polled or asked at every start: not worth a line at "info". */
const quiet: ReadonlySet<string> = new Set([
  "Probe",
  "GetPluginInfo",
  "GetPluginCapabilities",
  "ControllerGetCapabilities",
  "NodeGetCapabilities",
  "NodeGetVolumeStats",
  "GetCapacity",
]);

/** Where the lines go; `verbose` when debug lines are written at all. Every call is told to `calls`. */
export interface Observation {
  readonly log: Log;
  readonly verbose: boolean;
  readonly calls?: CallObserver;
}

/**
 * The service as the server mounts it. Here, and nowhere else: a Call is made, one log line is written at the end of each
 * RPC and secrets are hidden. An error that is no CsiError becomes "internal" with a fixed text; the log has the rest.
 */
export function instrument<S extends DescService>(
  service: S,
  implementation: Partial<Instrumented<ServiceImpl<S>>>,
  observation: Observation,
): Partial<ServiceImpl<S>> {
  const methods: Record<string, unknown> = {};
  const given = implementation as Record<string, Method | undefined>;
  for (const method of service.methods) {
    const run = given[method.localName];
    if (run) methods[method.localName] = observed(method, run, observation);
  }
  return methods as Partial<ServiceImpl<S>>;
}

function observed(method: DescMethod, run: Method, { log, verbose, calls }: Observation) {
  const silent = !verbose && quiet.has(method.name);
  return async (request: Message & Fields, context: HandlerContext) => {
    const call = new RequestCall(method, request, context, log);
    const end = calls?.(call.begun());
    if (verbose) call.log.debug("called", { method: method.name, request: withoutSecrets(method.input, request) });
    try {
      const answer = await run(request, call);
      if (!silent) call.log[quiet.has(method.name) ? "debug" : "info"]("answered", call.facts("ok", answer));
      end?.(call.end("ok", undefined, answer));
      return answer;
    } catch (error) {
      const told = failed(call, error);
      end?.(call.end(told.code, told.message));
      throw told;
    }
  };
}

/** Failures of what is polled, each told once and then counted. */
const polled = new Repeats();

/** What a cluster shows instead of our answer, for who looks for it in this log (kube-scheduler, volume binding). */
const shownAs: Readonly<Record<string, string>> = {
  GetCapacity:
    'Kubernetes has no capacity to go by, and shows "did not have enough free storage" for pods of this class',
};

/** Writes the line of a call that failed and gives the error that the client gets. */
function failed(call: RequestCall, error: unknown): CsiError {
  if (!(error instanceof CsiError)) {
    const reason = error instanceof Error ? error.stack : String(error);
    call.log.error("failed", { ...call.facts("internal"), reason });
    return new CsiError("internal", `internal error; the log of csimux has the details of request ${call.id}`);
  }
  const line = { ...call.facts(error.code), reason: error.message, cause: causeOf(error) };
  if (error.code === "internal") call.log.error("failed", line);
  else if (!quiet.has(call.method)) call.log.warn("failed", line);
  else {
    const times = polled.due(`${call.method} ${error.code} ${error.message}`);
    const more = { ...(shownAs[call.method] && { means: shownAs[call.method] }), ...(times && { times }) };
    if (times !== undefined) call.log.warn("failed", { ...line, ...more });
  }
  const told = withoutKnownSecrets(error.message);
  return told === error.message ? error : new CsiError(error.code, told, { cause: error });
}

const boot = randomBytes(3).toString("hex");
let calls = 0;

/** Made for every call, so it makes nothing that most calls do not use: id, log and signal come when asked for. */
class RequestCall implements Call {
  readonly #start = performance.now();
  readonly #method: DescMethod;
  readonly #request: Fields;
  readonly #context: HandlerContext;
  readonly #common: Log;
  #id: string | undefined;
  #log: Log | undefined;

  constructor(method: DescMethod, request: Fields, context: HandlerContext, log: Log) {
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

  end(code: CallEnd["code"], message: string | undefined, answer?: Fields): CallEnd {
    const connection = connectionOf(this.#request, answer);
    const told = message === undefined ? undefined : masked(message, Object.values(this.secrets));
    return { connection, code, message: told, seconds: (performance.now() - this.#start) / 1000 };
  }

  /** What the line at the end says; `ms` since the call began. */
  facts(code: string, answer?: Fields): object {
    const ms = Math.round((performance.now() - this.#start) * 100) / 100;
    const connection = connectionOf(this.#request, answer);
    return { method: this.#method.name, object: objectOf(this.#request), connection, code, ms };
  }
}

/** The connection that a request was about: what the answer says, else the handle in the request, else its class. */
function connectionOf(request: Fields, answer: Fields | undefined): string | undefined {
  const made = answer?.["volume"] as Fields | undefined;
  for (const id of [made?.["volumeId"], request["volumeId"], request["sourceVolumeId"], request["snapshotId"]]) {
    if (typeof id !== "string") continue;
    const handle = parseHandle(id, "volume") ?? parseHandle(id, "snapshot");
    if (handle) return handle.connection;
  }
  return (request["parameters"] as Fields | undefined)?.["connection"] as string | undefined;
}

/** The volume or snapshot that a request was about, as the cluster calls it: the name of a new one, else the handle. */
function objectOf({ name, snapshotId, volumeId }: Fields): string | undefined {
  const [named] = [name, snapshotId, volumeId].filter(id => typeof id === "string" && id !== "");
  // The longest name or handle that CSI allows; what is longer comes from nobody serious.
  return typeof named === "string" ? named.slice(0, 128) : undefined;
}

/** What lies behind a failure, for the log only: a failure that was foreseen needs no stack, a defect does. */
function causeOf({ cause, code }: CsiError): string | undefined {
  if (cause === undefined) return undefined;
  if (!(cause instanceof Error)) return String(cause);
  return code === "internal" ? (cause.stack ?? cause.message) : cause.message;
}
