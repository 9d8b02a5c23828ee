import { appendFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { Accounts } from "./accounts.ts";
import type { Core } from "./core.ts";
import { Faults } from "./faults.ts";
import { Jobs } from "./jobs.ts";
import { type Elsewhere, freshState, type SentStream, type State } from "./state.ts";
import { type Deliver, type Delivery, type Intercept, type Sent, sendResponse } from "./transport/delivery.ts";
import { answerRest } from "./transport/routes.ts";
import { Conversation } from "./transport/socket.ts";
import { upgraded } from "./upgrade.ts";
import { apiVersions, numberOf, type Version } from "./versions.ts";

/** How a double is started. */
export interface DoubleOptions {
  readonly version: Version;
  /** A free one when absent. */
  readonly port?: number;
  /** Where it listens; 127.0.0.1 when absent. */
  readonly address?: string;
  /** PEM texts; without them it speaks plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly state?: State;
  /** Where the datasets are, when not here. */
  readonly elsewhere?: Elsewhere;
  /** Loopback without TLS counts as safe for keys, as on the real one; false to see a key revoked. */
  readonly trustLoopback?: boolean;
  /** Requests without a login that one address may send within a minute, for each method; no limit when absent. */
  readonly loginLimit?: number;
  readonly latencyMs?: number;
  /** A file that gets one line of JSON for each request, and one for what was answered. */
  readonly record?: string | undefined;
}

/** One request, as it was recorded. */
export interface Recorded {
  readonly version: Version;
  readonly protocol: "rpc" | "rest";
  readonly method: string;
  readonly params: unknown;
  /** When it came, in milliseconds of some clock. */
  readonly at: number;
}

/** A TrueNAS of one version on a port of loopback. */
export class Double {
  readonly accounts = new Accounts();
  readonly jobs = new Jobs();
  readonly faults = new Faults();
  readonly busy = new Set<string>();
  /** Datasets that a replication writes to: they are busy, too. */
  readonly receiving = new Set<string>();
  /** How many streams of replications break off halfway. */
  breaks = 0;
  /** Whether it is 26.0.0-BETA.3 instead of 26.0.0, as far as the double knows the differences. */
  beta = false;
  /** The streams of replications that were received to their ends. */
  readonly streams: SentStream[] = [];
  readonly sessions = new Set<string>();
  readonly requests: Recorded[] = [];
  /** What becomes of an answer of a method on its way; over the WebSocket alone. */
  mangle: ((answer: object, method: string) => object) | undefined;
  /** What becomes of the text of an answer on its way. */
  deliver: ((sent: Sent) => Delivery | undefined) | undefined;
  /** Which requests do not reach the server, and what is answered to them. */
  intercept: Intercept | undefined;
  /** Its clock, in milliseconds since 1970. */
  now: () => number = Date.now;
  /** How many snapshots were read with all their properties, up to 25.10. */
  rowsRead = 0;
  /** How many sockets were opened. */
  sockets = 0;
  /** Addresses of the active node, when this one is on standby. */
  redirect: readonly string[] | undefined;
  /** Clients are not on the list of allowed addresses. */
  closedToAll = false;
  /** The front end answers alone, as while the system starts. */
  away = false;
  latencyMs: number;
  port = 0;
  version: Version;
  readonly state: State;
  readonly #options: DoubleOptions;
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: 4 << 20 });
  readonly #server;
  /** How often the middleware has started. */
  #starts = 1;
  readonly #admitted = new Map<string, number[]>();

  constructor(options: DoubleOptions) {
    this.#options = options;
    this.version = options.version;
    this.state = options.state ?? freshState();
    this.latencyMs = options.latencyMs ?? 0;
    const answer = (request: IncomingMessage, response: ServerResponse) => void this.#answer(request, response);
    this.#server = options.tls ? createTlsServer(options.tls, answer) : createServer(answer);
    // As nginx, which is in front of a real one; five seconds pass quickly where tests share a processor.
    this.#server.keepAliveTimeout = 75_000;
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#upgrade(request, socket, head),
    );
  }

  async listen(): Promise<this> {
    await new Promise<void>(resolve =>
      this.#server.listen(this.#options.port ?? 0, this.#options.address ?? "127.0.0.1", resolve),
    );
    const address = this.#server.address();
    this.port = typeof address === "object" && address !== null ? address.port : 0;
    return this;
  }

  /** The middleware starts again, perhaps as another version: sockets end, jobs are forgotten, the rest stays. */
  restart(version: Version = this.version): void {
    this.version = version;
    this.#starts++;
    upgraded(this.state, numberOf(version));
    this.jobs.forget();
    this.receiving.clear();
    this.cut();
  }

  /** Ends every connection. */
  cut(): void {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#server.closeAllConnections();
  }

  /** How many sockets are open. */
  get open(): number {
    return this.#sockets.clients.size;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise<void>(resolve => this.#server.close(() => resolve()));
  }

  get #core(): Core {
    const nas = {
      version: this.version,
      number: numberOf(this.version),
      state: this.state,
      busy: { has: (name: string) => this.busy.has(name) || this.receiving.has(name) },
      receiving: this.receiving,
      beta: this.beta,
      breaks: () => this.breaks > 0 && this.breaks-- > 0,
      sent: (stream: SentStream) => void this.streams.push(stream),
      sessions: this.sessions,
      fullAdmin: true,
      elsewhere: this.#options.elsewhere,
      now: () => Math.floor(this.now() / 1000),
      readRows: (count: number) => {
        this.rowsRead += count;
      },
    };
    const { accounts, jobs, faults, latencyMs } = this;
    const starts = this.#starts;
    const hasEnded = () => this.#starts !== starts;
    const record: Core["record"] = (protocol, method, params) =>
      this.#record({ version: nas.version, protocol, method, params, at: performance.now() });
    const recordAnswer: Core["recordAnswer"] = (method, result) =>
      this.#write({ version: nas.version, method, result });
    const mangle: Core["mangle"] = (answer, method) => this.mangle?.(answer, method) ?? answer;
    const deliver: Deliver = sent => this.deliver?.(sent) ?? { texts: [sent.text], status: sent.status ?? 0 };
    const intercept: Intercept = method => this.intercept?.(method);
    return { nas, accounts, jobs, faults, latencyMs, hasEnded, mangle, deliver, intercept, record, recordAnswer };
  }

  #record(request: Recorded): void {
    this.requests.push(request);
    this.#write(request);
  }

  #write(line: object): void {
    if (this.#options.record) appendFileSync(this.#options.record, `${JSON.stringify(line)}\n`);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://nas");
    if (this.away) {
      response.writeHead(502);
      response.end();
      return;
    }
    const listed = apiVersions(this.version);
    if (url.pathname === "/api/versions" && listed)
      return sendResponse(
        response,
        this.intercept?.(url.pathname) ?? this.#core.deliver({ text: JSON.stringify(listed), status: 200 }),
      );
    if (url.pathname.startsWith("/api/v2.0/") && numberOf(this.version) < 2600)
      return answerRest(this.#core, request, response, url);
    response.writeHead(404, { "content-type": "text/html" });
    response.end("<html>not found</html>");
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (request.url !== "/api/current" || numberOf(this.version) < 2504)
      return void socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    this.#sockets.handleUpgrade(request, socket, head, each => this.#converse(each));
  }

  #converse(socket: WebSocket): void {
    if (this.closedToAll) {
      socket.close(1008, "You are not allowed to access this resource");
      return;
    }
    this.sockets++;
    const secure = this.#options.tls !== undefined || this.#options.trustLoopback !== false;
    const admit = (method: string) => this.#admit(method);
    new Conversation(this.#core, socket, { secure, admit, redirect: this.redirect });
  }

  #admit(method: string): boolean {
    const now = Date.now();
    const recent = (this.#admitted.get(method) ?? []).filter(time => now - time < 60_000);
    this.#admitted.set(method, [...recent, now]);
    return recent.length < (this.#options.loginLimit ?? Number.POSITIVE_INFINITY);
  }
}

/** Starts a double; requests go to the file that TRUENAS_DOUBLE_RECORD names as well. */
export const startDouble = (options: DoubleOptions): Promise<Double> =>
  new Double({ record: process.env["TRUENAS_DOUBLE_RECORD"], ...options }).listen();
