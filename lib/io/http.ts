import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { dial, HttpError, type HttpSettings, originOf } from "./dial.ts";
import { NotJson, parsedJson } from "./json.ts";

/** One request. */
export interface HttpRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** The encoded path, from the first "/" on. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The limit for the whole exchange, in milliseconds; 30,000 if absent. */
  readonly timeoutMs?: number;
  /** The longest body accepted, in bytes; 16 MiB if absent. */
  readonly maxBytes?: number;
}

/** The server's answer; the body is UTF-8 text. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
  /** The parsed body; undefined if it is not JSON. */
  json(): unknown;
}

/** An HTTP client for one server. It does not interpret status codes and follows no redirects. */
export interface Http {
  /** "https://nas:443"; for logs and errors. */
  readonly where: string;
  /** Throws HttpError. */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>;
  /** Closes idle connections. */
  close(): void;
}

const usualMs = 30_000;
const usualBytes = 16 << 20;
/** The number of concurrent connections of one client; further requests wait. */
const connectionsAtOnce = 8;

/** Makes a client that keeps idle connections for some seconds. Creating it does no I/O. */
export function httpClient(settings: HttpSettings): Http {
  const agent = agentOf(settings);
  const where = originOf(settings);
  return {
    where,
    close: () => agent.destroy(),
    async send(request, signal) {
      const limit = AbortSignal.timeout(request.timeoutMs ?? usualMs);
      const both = AbortSignal.any([signal, limit]);
      try {
        return await exchanged({ settings, agent, where }, request, both);
      } catch (error) {
        if (signal.aborted) throw new HttpError(where, "cancelled", "the call has ended", { cause: error });
        if (!limit.aborted) throw error;
        throw new HttpError(where, "timeout", `no answer within ${request.timeoutMs ?? usualMs} ms`, { cause: error });
      }
    },
  };
}

interface Client {
  readonly settings: HttpSettings;
  readonly agent: HttpAgent;
  readonly where: string;
}

/** If the server has closed a kept connection, the next request fails; a GET is then sent again. */
async function exchanged(client: Client, request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
  const first = started(client, request, signal);
  try {
    return await first.answer;
  } catch (error) {
    if (request.method !== "GET" || !first.sent.reusedSocket || signal.aborted) throw error;
    return started(client, request, signal).answer;
  }
}

function started({ settings, agent, where }: Client, request: HttpRequest, signal: AbortSignal) {
  const { host, port } = settings;
  const { method, path, headers, body } = request;
  const length = body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(body)) };
  const options = { host: host.replace(/^\[|\]$/g, ""), port, method, path, agent, signal };
  const sending = settings.protocol === "https" ? httpsRequest : httpRequest;
  const sent: ClientRequest = sending({ ...options, headers: { ...headers, ...length } });
  const answer = new Promise<HttpAnswer>((resolve, reject) => {
    const failed = (cause: unknown) => reject(failureOf(where, cause));
    // Aborting ends the request, but not every runtime then ends a body that stalls.
    signal.addEventListener("abort", failed, { once: true });
    sent.on("error", failed);
    sent.on("response", response => {
      collected(where, response, request.maxBytes ?? usualBytes)
        .then(bytes => resolve(answerOf(response, bytes)), failed)
        .finally(() => signal.removeEventListener("abort", failed));
    });
  });
  sent.end(body);
  return { sent, answer };
}

const failureOf = (where: string, cause: unknown): HttpError =>
  cause instanceof HttpError
    ? cause
    : new HttpError(where, "lost", cause instanceof Error ? cause.message : "the connection failed", { cause });

async function collected(where: string, response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    chunks.push(Buffer.from(chunk));
    bytes += chunk.length;
    if (bytes > maxBytes) {
      response.destroy();
      throw new HttpError(where, "too-long", `the answer is longer than ${maxBytes} bytes`);
    }
  }
  return Buffer.concat(chunks);
}

const answerOf = ({ statusCode = 0, headers }: IncomingMessage, bytes: Buffer): HttpAnswer => ({
  status: statusCode,
  headers,
  get body() {
    return bytes.toString("utf8");
  },
  json: () => {
    try {
      return parsedJson(bytes);
    } catch (error) {
      if (error instanceof NotJson) return undefined;
      throw error;
    }
  },
});

type HttpClients = (error: Error | null, socket?: Socket) => void;

/** An agent whose connections come from `dial`, so that certificates are checked in one place. */
function agentOf(settings: HttpSettings): HttpAgent {
  const options = { keepAlive: true, maxSockets: connectionsAtOnce, timeout: 60_000 };
  const agent = settings.protocol === "https" ? new HttpsAgent(options) : new HttpAgent(options);
  const made = { never: new AbortController().signal };
  const createConnection = (_options: unknown, done: HttpClients): void => {
    dial(settings, made.never).then(
      socket => done(null, socket),
      (error: Error) => done(error),
    );
  };
  return Object.assign(agent, { createConnection });
}
