import { randomBytes } from "node:crypto";
import type { DescMethod, DescService, Message } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
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
]);

/**
 * The service as the server mounts it. Here, and nowhere else: a Call is made, one log line is written at the end of each
 * RPC and secrets are hidden. An error that is no CsiError becomes "internal" with a fixed text; the log has the rest.
 */
export function instrument<S extends DescService>(
  service: S,
  implementation: Partial<Instrumented<ServiceImpl<S>>>,
  log: Log,
): Partial<ServiceImpl<S>> {
  const methods: Record<string, unknown> = {};
  const given = implementation as Record<string, Method | undefined>;
  for (const method of service.methods) {
    const run = given[method.localName];
    if (run) methods[method.localName] = observed(method, run, log);
  }
  return methods as Partial<ServiceImpl<S>>;
}

const boot = randomBytes(3).toString("hex");
let calls = 0;

function observed(method: DescMethod, run: Method, log: Log) {
  const quietly = quiet.has(method.name);
  return async (request: Message & Fields, context: HandlerContext) => {
    const call = new RequestCall(request, context, log);
    const start = performance.now();
    const facts = (code: string, answer?: Fields) => ({
      connection: connectionOf(request, answer),
      code,
      ms: since(start),
    });
    log.debug(`${method.name} request`, () => ({ id: call.id, request: withoutSecrets(method.input, request) }));
    try {
      const answer = await run(request, call);
      if (quietly) log.debug(method.name, () => ({ id: call.id, ...facts("ok", answer) }));
      else call.log.info(method.name, facts("ok", answer));
      return answer;
    } catch (error) {
      if (!(error instanceof CsiError)) {
        call.log.error(method.name, {
          ...facts("internal"),
          reason: error instanceof Error ? error.stack : String(error),
        });
        throw new CsiError("internal", `internal error; the log of csimux has the details of request ${call.id}`);
      }
      const line = { ...facts(error.code), reason: error.message, cause: causeOf(error) };
      if (error.code === "internal") call.log.error(method.name, line);
      else call.log.warn(method.name, line);
      throw error;
    }
  };
}

/** Made for every call, so it makes nothing that most calls do not use: the log and the signal come when asked for. */
class RequestCall implements Call {
  readonly id = `${boot}-${(++calls).toString(36)}`;
  readonly #request: Fields;
  readonly #context: HandlerContext;
  readonly #log: Log;
  #own: Log | undefined;

  constructor(request: Fields, context: HandlerContext, log: Log) {
    this.#request = request;
    this.#context = context;
    this.#log = log;
  }

  get log(): Log {
    this.#own ??= this.#log.with({ id: this.id });
    return this.#own;
  }

  get secrets(): Readonly<Record<string, string>> {
    return (this.#request["secrets"] as Readonly<Record<string, string>> | undefined) ?? {};
  }

  get signal(): AbortSignal {
    return this.#context.signal;
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

const since = (start: number): number => Math.round((performance.now() - start) * 100) / 100;

/** What lies behind a failure, for the log only. */
const causeOf = ({ cause }: Error): string | undefined =>
  cause === undefined ? undefined : cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
