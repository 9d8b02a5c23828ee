import { type RawData, WebSocket } from "ws";
import { isMapping } from "../core/mapping.ts";
import { dial, HttpError, type HttpFailure, type HttpSettings, originOf } from "./dial.ts";
import { NotJson, parsedJson } from "./json.ts";

/** The server's `error` for one call (JSON-RPC 2.0, 5.1). */
export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;
  readonly data: unknown;
  constructor(code: number, message: string, data: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** JSON-RPC 2.0 over one WebSocket (RFC 6455). Answers arrive in any order. */
export interface RpcSocket {
  /** "wss://nas:443/api/current"; for logs and errors. */
  readonly where: string;
  /**
   * Throws RpcError, or HttpError: "lost" if the socket ended before the answer, or there was no answer within `answerMs`,
   * "cancelled", "refused" if the socket was closed already, and "too-long" if the request exceeds `maxRequest`.
   */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /** Resolves with the reason once the socket is closed; never rejects. */
  readonly closed: Promise<string>;
  close(): void;
}

/** The options of one socket. */
export interface RpcOptions {
  readonly path: string;
  /** The longest request that the server currently accepts, in bytes. */
  readonly maxRequest: () => number;
  /** The time limit of an answer, in milliseconds; 60,000 if absent. Pings check only the socket. */
  readonly answerMs?: number;
  /** The interval of pings, in milliseconds; 30,000 if absent. */
  readonly pingMs?: number;
  /** The time limit of a ping, in milliseconds; 10,000 if absent. */
  readonly pongMs?: number;
}

/** The longest answer: enough for 20,000 datasets with the properties that a listing asks for. */
const maxAnswer = 64 << 20;
/** The time limit of the upgrade and of a ping, in milliseconds. */
const usualMs = 10_000;
const usualAnswerMs = 60_000;

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Opens a socket. Throws HttpError; "refused" if the server answers, but not with a WebSocket at `path`. */
export async function openRpc(settings: HttpSettings, options: RpcOptions, signal: AbortSignal): Promise<RpcSocket> {
  const where = `${originOf(settings).replace(/^http/, "ws")}${options.path}`;
  const connection = await dial(settings, signal);
  const socket = new WebSocket(where, {
    createConnection: () => connection,
    maxPayload: maxAnswer,
    perMessageDeflate: false,
    handshakeTimeout: usualMs,
    followRedirects: false,
  });
  await opened(socket, where, signal);
  return new JsonRpcSocket(socket, where, options);
}

function opened(socket: WebSocket, where: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: HttpError) => {
      signal.removeEventListener("abort", cancelled);
      socket.removeAllListeners();
      socket.on("error", () => undefined);
      if (!error) return resolve();
      socket.terminate();
      reject(error);
    };
    const cancelled = () => settle(new HttpError(where, "cancelled", "the call has ended"));
    signal.addEventListener("abort", cancelled, { once: true });
    socket.once("open", () => settle());
    socket.once("unexpected-response", (_request, response) =>
      settle(new HttpError(where, "refused", `HTTP ${response.statusCode} instead of a WebSocket`)),
    );
    socket.once("error", (cause: Error) =>
      settle(new HttpError(where, "unreachable", cause.message || "the WebSocket was not opened", { cause })),
    );
    socket.once("close", () => settle(new HttpError(where, "unreachable", "closed before it was open")));
  });
}

class JsonRpcSocket implements RpcSocket {
  readonly where: string;
  readonly closed: Promise<string>;
  readonly #socket: WebSocket;
  readonly #options: RpcOptions;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #over: string | undefined;

  constructor(socket: WebSocket, where: string, options: RpcOptions) {
    this.where = where;
    this.#socket = socket;
    this.#options = options;
    socket.on("message", data => this.#received(data));
    this.closed = new Promise(resolve => {
      socket.once("close", (code: number, reason: Buffer) => resolve(this.#ended(code, reason.toString("utf8"))));
    });
    this.#watch(options.pingMs ?? 30_000, options.pongMs ?? usualMs);
  }

  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const id = ++this.#lastId;
    const text = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    const refused = this.#refusal(method, text, signal);
    if (refused) return Promise.reject(refused);
    const limitMs = this.#options.answerMs ?? usualAnswerMs;
    return new Promise((resolve, reject) => {
      const give = (failure: HttpFailure, reason: string) => {
        this.#pending.delete(id);
        settled();
        reject(new HttpError(this.where, failure, reason));
      };
      const cancelled = () => give("cancelled", `the call ended before ${method} was answered`);
      const late = () => give("lost", `${method} was not answered within ${limitMs / 1000} s`);
      const timer = setTimeout(late, limitMs);
      const settled = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", cancelled);
      };
      this.#pending.set(id, {
        resolve: result => {
          settled();
          resolve(result);
        },
        reject: error => {
          settled();
          reject(error);
        },
      });
      signal.addEventListener("abort", cancelled, { once: true });
      this.#socket.send(text);
    });
  }

  close(): void {
    this.#socket.close(1000);
    // Do not wait for a server that does not answer the closing handshake.
    setTimeout(() => this.#socket.terminate(), 1000).unref?.();
  }

  #refusal(method: string, text: string, signal: AbortSignal): HttpError | undefined {
    if (signal.aborted) return new HttpError(this.where, "cancelled", `the call ended before ${method} was sent`);
    if (this.#over !== undefined) return new HttpError(this.where, "refused", this.#over);
    const bytes = Buffer.byteLength(text);
    const most = this.#options.maxRequest();
    if (bytes <= most) return undefined;
    const message = `the request ${method} has ${bytes} bytes, and the server accepts ${most}`;
    return new HttpError(this.where, "too-long", message);
  }

  #received(data: RawData): void {
    if (this.#over !== undefined) return;
    try {
      this.#heard(parsedJson(Buffer.isBuffer(data) ? data : Buffer.from(data.toString())));
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
      this.#broken(`the server did not send a JSON object: ${error.message}`);
    }
  }

  #heard(message: unknown): void {
    if (!isMapping(message)) {
      this.#broken("the server did not send a JSON object");
      return;
    }
    const { id } = message;
    // The server could not parse a request, so the answer has no id (JSON-RPC 2.0, 5).
    if (id === null && "error" in message) {
      this.#broken(rpcError(message["error"]).message);
      return;
    }
    const pending = typeof id === "number" ? this.#pending.get(id) : undefined;
    if (typeof id !== "number" || !pending) return;
    this.#pending.delete(id);
    if ("error" in message) pending.reject(rpcError(message["error"]));
    else pending.resolve(message["result"]);
  }

  /** After an invalid message it is unknown which calls will be answered, so all of them are lost. */
  #broken(reason: string): void {
    this.#lose(`${reason}; the connection was closed`);
    this.#socket.terminate();
  }

  #ended(code: number, reason: string): string {
    return this.#lose(`the server closed the connection (${code}${reason === "" ? "" : `, ${reason}`})`);
  }

  /** Ends all calls with the first reason. */
  #lose(reason: string): string {
    this.#over ??= reason;
    for (const { reject } of this.#pending.values()) reject(new HttpError(this.where, "lost", this.#over));
    this.#pending.clear();
    return this.#over;
  }

  /** Detects a vanished peer by an unanswered ping (RFC 6455, 5.5.2). */
  #watch(everyMs: number, pongMs: number): void {
    let heard = true;
    let waiting: NodeJS.Timeout | undefined;
    this.#socket.on("pong", () => {
      heard = true;
    });
    const timer = setInterval(() => {
      if (waiting) return;
      heard = false;
      this.#socket.ping();
      waiting = setTimeout(() => {
        waiting = undefined;
        if (!heard) this.#socket.terminate();
      }, pongMs);
    }, everyMs);
    void this.closed.then(() => {
      clearInterval(timer);
      clearTimeout(waiting);
    });
  }
}

function rpcError(error: unknown): RpcError {
  const { code, message, data } = (error ?? {}) as Record<string, unknown>;
  return new RpcError(Number(code), typeof message === "string" ? message : "no message", data);
}
