import { createHash } from "node:crypto";
import { keepSecret } from "../../core/secrets.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { HttpError, type HttpSettings, originOf } from "../../io/dial.ts";
import { type Http, httpClient } from "../../io/http.ts";
import { DsmError, endsSession, NotDsm, refusesLogin } from "./dsm-error.ts";

/** A DSM and who csimux is there. */
export interface DsmServer {
  readonly http: HttpSettings;
  readonly username: string;
  readonly password: string;
  /** The name of the session: a login under the same one ends it. */
  readonly session: string | undefined;
  /** One call at a time. */
  readonly serialize: boolean;
}

/** One call. Parameters that are undefined are left out. */
export interface DsmCall {
  readonly api: string;
  readonly method: string;
  /** Of the API; "1" when absent. */
  readonly version?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

interface Session {
  readonly sid: string;
  /** What proves that a request was not forged; DSM 7 wants it where that protection is on. */
  readonly token: string | undefined;
}

/** Equal for servers that can share a session; tells nothing of the credentials. */
export const serverKey = (server: DsmServer): string =>
  createHash("sha256").update(JSON.stringify(server)).digest("base64url");

/** After three refused logins within five minutes DSM blocks the address, by default for a day. */
const refusedForMs = 5 * 60_000;
const loginMs = 20_000;
const logoutMs = 3000;

/** Methods that change nothing; they may be asked again when the answer was lost. */
const reads = /^(?:list|get|load)/;

/**
 * One account of one DSM for all connections that use it. Logs in when it is first asked for something and once more when the
 * session has ended; secrets travel in bodies only, never in an address that proxies and DSM write into their logs.
 */
export class DsmClient {
  readonly where: string;
  readonly #server: DsmServer;
  readonly #http: Http;
  readonly #turns: Semaphore;
  readonly #one = new Semaphore(1);
  readonly #now: () => number;
  readonly #shown: () => void;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #refused: { readonly error: unknown; readonly until: number } | undefined;

  /** `turns`: those of the system, shared by all of its clients. */
  constructor(server: DsmServer, turns: Semaphore, now: () => number = () => performance.now()) {
    this.where = originOf(server.http);
    this.#server = server;
    this.#http = httpClient(server.http);
    this.#turns = turns;
    this.#now = now;
    this.#shown = keepSecret([server.password]);
  }

  /**
   * The `data` of the answer, for the connection `owner`, whose calls take turns with those of others. After a changing call
   * whose answer was lost the caller has to look what became of it. Throws DsmError, HttpError or NotDsm.
   */
  call(owner: string, what: DsmCall, signal: AbortSignal): Promise<unknown> {
    const work = () => this.#turns.run(() => this.#asked(what, signal), signal, owner);
    return this.#server.serialize ? this.#one.run(work, signal) : work();
  }

  /** Logs out. */
  async close(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session) {
      const logout = { api: "SYNO.API.Auth", method: "logout", version: "6", session: this.#server.session ?? "" };
      await this.#posted("auth.cgi", logout, session, AbortSignal.timeout(logoutMs)).catch(() => undefined);
    }
    this.#http.close();
    this.#shown();
  }

  async #asked(what: DsmCall, signal: AbortSignal): Promise<unknown> {
    const session = await this.#opened(signal);
    try {
      return await this.#sent(what, session, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const lost = error instanceof HttpError && error.failure === "lost" && reads.test(what.method);
      if (!lost && !endsSession(error)) throw error;
      if (!lost && this.#session === session) this.#session = undefined;
      return this.#sent(what, await this.#opened(signal), signal);
    }
  }

  /** Text goes quoted: DSM reads every parameter as JSON, and takes digits without quotes for a number. */
  #sent({ api, method, version = "1", params = {} }: DsmCall, session: Session, signal: AbortSignal): Promise<unknown> {
    const given = Object.entries(params).filter(([, value]) => value !== undefined);
    const fields = Object.fromEntries(given.map(([key, value]) => [key, JSON.stringify(value)]));
    return this.#posted("entry.cgi", { api, method, version, ...fields }, session, signal);
  }

  async #posted(
    cgi: string,
    fields: Readonly<Record<string, string>> & { readonly api: string; readonly method: string },
    session: Session | undefined,
    signal: AbortSignal,
  ): Promise<unknown> {
    // DSM 7 takes the session from a cookie only, DSM 6 from either.
    const headers = {
      "Content-Type": "application/x-www-form-urlencoded",
      ...(session && { Cookie: `id=${session.sid}` }),
      ...(session?.token !== undefined && { "X-SYNO-TOKEN": session.token }),
    };
    const body = new URLSearchParams({ ...fields, ...(session && { _sid: session.sid }) }).toString();
    const answer = await this.#http.send({ method: "POST", path: `/webapi/${cgi}`, headers, body }, signal);
    if (answer.status >= 500) throw new HttpError(this.where, "refused", `DSM answers with status ${answer.status}`);
    return dataOf(answer.status === 200 ? await answer.json() : undefined, fields, this.where);
  }

  async #opened(signal: AbortSignal): Promise<Session> {
    if (this.#session) return this.#session;
    if (signal.aborted) throw new HttpError(this.where, "cancelled", "the call ended before the system was reached");
    if (this.#refused && this.#now() < this.#refused.until) throw this.#refused.error;
    this.#opening ??= this.#login().finally(() => {
      this.#opening = undefined;
    });
    return unlessAborted(this.#opening, this.where, signal);
  }

  /** Nobody's signal: others wait for the same login. */
  async #login(): Promise<Session> {
    const { username, password, session } = this.#server;
    const fields = {
      ...{ api: "SYNO.API.Auth", method: "login", version: "6", account: username, passwd: password },
      ...{ format: "sid", enable_syno_token: "yes", ...(session && { session }) },
    };
    try {
      const data = (await this.#posted("auth.cgi", fields, undefined, AbortSignal.timeout(loginMs))) as {
        readonly sid?: unknown;
        readonly synotoken?: unknown;
      };
      if (typeof data.sid !== "string") throw new NotDsm(`${this.where} has answered a login without a session`);
      this.#session = { sid: data.sid, token: typeof data.synotoken === "string" ? data.synotoken : undefined };
      this.#refused = undefined;
      return this.#session;
    } catch (error) {
      if (refusesLogin(error)) this.#refused = { error, until: this.#now() + refusedForMs };
      throw error;
    }
  }
}

function dataOf(
  answer: unknown,
  { api, method }: { readonly api: string; readonly method: string },
  where: string,
): object {
  if (answer === undefined)
    throw new NotDsm(`${where} does not answer as the web interface of a DSM does (usually port 5000 or 5001)`);
  const { success, data, error } = (answer ?? {}) as {
    readonly success?: unknown;
    readonly data?: unknown;
    readonly error?: { readonly code?: unknown };
  };
  if (success !== true) throw new DsmError(api, method, Number(error?.code ?? 100));
  return typeof data === "object" && data !== null ? data : {};
}

function unlessAborted<T>(work: Promise<T>, where: string, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancelled = () => reject(new HttpError(where, "cancelled", "the call ended before the system was reached"));
    // First of all, or nobody would hear of its failure, which ends the process.
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", cancelled));
    if (signal.aborted) return cancelled();
    signal.addEventListener("abort", cancelled, { once: true });
  });
}
