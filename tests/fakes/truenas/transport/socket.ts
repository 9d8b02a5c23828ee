import type { WebSocket } from "ws";
import { passing } from "../../../waiting.ts";
import type { Session } from "../accounts.ts";
import { type Core, fitting, invoked, jobResult, knows } from "../core.ts";
import { checkRequest } from "../facts/check.ts";
import { completed } from "../facts/complete.ts";
import { CallError, rpcErrorOf } from "../failure.ts";
import { sendMessage } from "./delivery.ts";

/**
 * JSON-RPC 2.0 on one socket, with the limits and words of the real server (api/base/server/ws_handler/rpc.py, utils/limits.py and
 * utils/lock.py of TS-25.10.6; logins: plugins/auth.py, api/v25_04_0/auth.py; too many of them: main.py and utils/rate_limit/cache.py).
 */

/** Where a socket came from. */
export interface Peer {
  /** TLS, or loopback where that counts as good as TLS. */
  readonly secure: boolean;
  /** Counts a request without a login; false if there are too many. */
  admit(method: string): boolean;
  /** Addresses of the active node, when this one is on standby. */
  readonly redirect: readonly string[] | undefined;
}

const runningAtOnce = 10;
const acceptedAtOnce = 20;
const beforeLogin = 8192;
const afterLogin = 65_536;

const tooManyCalls = `Maximum number of concurrent calls (${acceptedAtOnce}) has exceeded`;

interface Request {
  readonly id?: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

/** The server's half of one socket. */
export class Conversation {
  readonly #core: Core;
  readonly #socket: WebSocket;
  readonly #peer: Peer;
  #session: Session | undefined;
  #legacyJobs = true;
  #accepted = 0;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(core: Core, socket: WebSocket, peer: Peer) {
    this.#core = core;
    this.#socket = socket;
    this.#peer = peer;
    socket.on("error", () => undefined);
    socket.on("message", (data, binary) => {
      if (binary) return socket.close(1003);
      const text = data.toString();
      if (text.length > (this.#session ? afterLogin : beforeLogin))
        return socket.close(this.#session ? 1009 : 1007, "Max message length");
      void this.#received(text);
    });
  }

  get credential(): string {
    return this.#session?.credential ?? "";
  }

  #say(message: object): void {
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    sendMessage(this.#socket, this.#core.deliver({ text, status: undefined }));
  }

  async #received(text: string): Promise<void> {
    const request = this.#parsed(text);
    const intercepted = request && this.#core.intercept(request.method);
    if (intercepted) sendMessage(this.#socket, intercepted);
    if (!request || intercepted) return;
    const { id } = request;
    if (this.#accepted >= acceptedAtOnce) return this.#say({ id, error: { code: -32000, message: tooManyCalls } });
    this.#accepted++;
    try {
      await this.#turn();
      const answer = await this.#answered(request);
      if (answer) this.#say({ id, ...answer });
    } finally {
      this.#accepted--;
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async #turn(): Promise<void> {
    if (this.#running >= runningAtOnce) await new Promise<void>(resolve => this.#waiting.push(resolve));
    this.#running++;
  }

  #parsed(text: string): Request | undefined {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      value = undefined;
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      const message = Array.isArray(value) ? "Batch messages are not supported at this time" : "Parse error";
      this.#say({ id: null, error: { code: -32700, message } });
      return undefined;
    }
    const { jsonrpc, id, method, params = [] } = value as Readonly<Record<string, unknown>>;
    if (jsonrpc === "2.0" && typeof method === "string" && Array.isArray(params)) return { id, method, params };
    this.#say({ id: id ?? null, error: { code: -32600, message: "Invalid Request" } });
    return undefined;
  }

  /** What is answered; undefined: nothing. */
  async #answered({ method, params }: Request): Promise<object | undefined> {
    const own = this.#own(method);
    if (own) return this.#caught(() => this.#compared(method, params, own));
    if (!knows(this.#core, method)) return { error: { code: -32601, message: "Method does not exist" } };
    const fault = this.#core.faults.next(this.credential, method);
    if (fault === "before") return this.#lost();
    this.#core.record("rpc", method, params);
    // A slow system.
    if (this.#core.latencyMs > 0) await passing(this.#core.latencyMs);
    if (this.#core.hasEnded()) return undefined;
    const whole = await this.#caught(() => this.#invoked(method, params));
    const answer = this.#core.mangle(whole, method);
    if (fault === "hung") await new Promise(() => undefined);
    // An answer that takes longer than the others.
    if (fault === "slow") await passing(this.#core.faults.slowMs);
    if (fault === "garbled") this.#socket.send(JSON.stringify(answer).slice(0, -1));
    if (fault === "unanswered" || fault === "garbled") return undefined;
    return fault === "after" ? this.#lost() : answer;
  }

  /** What one of the socket's own methods answers; both are compared with the facts. */
  #compared(method: string, params: readonly unknown[], own: (params: readonly unknown[]) => unknown): unknown {
    const { version } = this.#core.nas;
    checkRequest(version, method, params);
    return fitting(version, method, own(params) ?? null);
  }

  #lost(): undefined {
    this.#socket.terminate();
    return undefined;
  }

  async #caught(work: () => unknown): Promise<object> {
    try {
      return { result: (await work()) ?? null };
    } catch (error) {
      return { error: rpcErrorOf(error) };
    }
  }

  async #invoked(method: string, params: readonly unknown[]): Promise<unknown> {
    const { result, job } = await invoked(this.#core, this.#session, method, params);
    if (!job) return result;
    if (this.#legacyJobs) return job.id;
    await job.done;
    return jobResult(job);
  }

  /** Methods that belong to the socket or need no login. */
  #own(method: string): ((params: readonly unknown[]) => unknown) | undefined {
    const open: Readonly<Record<string, (params: readonly unknown[]) => unknown>> = {
      "core.ping": () => "pong",
      "auth.login_ex": ([data]) => this.#loginEx(data as Readonly<Record<string, string>>),
      "auth.login_with_api_key": ([key]) => this.#byKey(String(key), undefined) === "SUCCESS",
      "auth.login": ([user, password]) => this.#byPassword(String(user), String(password)) === "SUCCESS",
    };
    const known = open[method];
    if (known) return params => (this.#session || this.#peer.admit(method) ? known(params) : this.#tooMany());
    const loggedIn: Readonly<Record<string, (params: readonly unknown[]) => unknown>> = {
      "core.set_options": ([options]) => this.#setOptions(options),
      "core.get_jobs": ([filters, options]) => {
        const { accounts, jobs } = this.#core;
        const fullAdmin = this.#session !== undefined && accounts.isFullAdmin(this.#session);
        return jobs.query(filters, options, { user: this.#session?.user, fullAdmin });
      },
      "core.job_abort": ([id]) => this.#core.jobs.abort(id),
      "core.subscribe": () => "subscription",
      "auth.me": () => this.#session && this.#core.accounts.shown(this.#session),
    };
    const mine = loggedIn[method];
    if (!mine) return undefined;
    return params => {
      this.#core.accounts.allow(this.#session, undefined);
      return mine(params);
    };
  }

  #tooMany(): never {
    throw new CallError("EBUSY", "Rate Limit Exceeded");
  }

  /** Only from 25.10 on a job's own answer can be waited for, and the options are answered (service/core_service.py of TS-25.10.6). */
  #setOptions(options: unknown): object | null {
    const { legacy_jobs } = completed<{ readonly legacy_jobs?: boolean }>(this.#core.nas, "core.set_options", options);
    if (legacy_jobs !== undefined) this.#legacyJobs = legacy_jobs;
    if (this.#core.nas.number < 2510) return null;
    return { legacy_jobs: this.#legacyJobs, private_methods: false, py_exceptions: false };
  }

  #loginEx(data: Readonly<Record<string, string>>): object {
    if (this.#peer.redirect) return { response_type: "REDIRECT", urls: this.#peer.redirect };
    const { mechanism, username = "", password = "", api_key = "" } = data;
    if (mechanism === "API_KEY_PLAIN") return this.#loggedIn(this.#byKey(api_key, username));
    if (mechanism === "PASSWORD_PLAIN") return this.#loggedIn(this.#byPassword(username, password));
    throw new CallError("EINVAL", `${mechanism} is not available`);
  }

  #loggedIn(response_type: string): object {
    const { accounts, nas } = this.#core;
    if (response_type !== "SUCCESS" || !this.#session) return { response_type };
    const token = nas.number >= 2600 ? { reconnect_token: null } : {};
    return { response_type, user_info: accounts.shown(this.#session), authenticator: "LEVEL_1", ...token };
  }

  #byKey(key: string, user: string | undefined): string {
    const session = this.#core.accounts.byKey(key, user);
    if (typeof session === "string") return session;
    if (!this.#peer.secure) {
      // Right key, wrong place: anyone who listened has it now.
      this.#core.accounts.revoke(key);
      return "EXPIRED";
    }
    this.#session = session;
    return "SUCCESS";
  }

  #byPassword(user: string, password: string): string {
    const session = this.#core.accounts.byPassword(user, password);
    if (typeof session === "string") return session;
    this.#session = session;
    return "SUCCESS";
  }
}
