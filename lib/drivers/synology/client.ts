import { createHash } from "node:crypto";
import { keepSecret } from "../../core/secrets.ts";
import { Semaphore, semaphores } from "../../core/semaphore.ts";
import { unlessAborted } from "../../core/time.ts";
import { type HttpAddress, HttpError, type HttpSettings, httpSettings, originOf } from "../../io/dial.ts";
import { type Http, httpClient } from "../../io/http.ts";
import { SharedInstances } from "../../io/lease.ts";
import { DsmError, endsSession, NotDsm, refusesLogin } from "./dsm-error.ts";

/** The account of a DSM. */
interface DsmAccount {
  readonly username: string;
  readonly password: string;
  /** The name of the session; a login with the same name ends the earlier session. */
  readonly session?: string | undefined;
  /** One call at a time. */
  readonly serialize: boolean;
}

/** `httpConnection` of a connection file. */
export interface DsmConnection extends HttpAddress, DsmAccount {}

/** A DSM and the account that csimux uses. */
export interface DsmServer extends DsmAccount {
  readonly http: HttpSettings;
}

/** The DSM of a connection file. If `protocol` is absent, the port decides; DSM uses https on 5001. */
export function serverOf(connection: DsmConnection): DsmServer {
  const { port, username, password, session, serialize } = connection;
  const protocol = connection.protocol ?? (/443|5001/.test(String(port ?? "")) ? "https" : "http");
  const http = httpSettings(connection, protocol, protocol === "https" ? 5001 : 5000);
  return { http, username, password, session: session || undefined, serialize };
}

/** One call. Undefined parameters are omitted. */
export interface DsmCall {
  readonly api: string;
  readonly method: string;
  /** The version of the API; "1" if absent. */
  readonly version?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  /** Waits until no other call of this kind runs on the system: DSM takes one change of shared folders at a time. */
  readonly alone?: true;
  /** What is read in the same turn, right before a change, which is not made if `check` throws. */
  readonly proof?: { readonly read: DsmCall; readonly check: (answer: Row) => void };
}

interface Session {
  readonly sid: string;
  /** Required by DSM 7 if its protection against cross-site request forgery is on. */
  readonly token: string | undefined;
}

/** Equal for servers that can share a session; reveals nothing about the credentials. */
const serverKey = (server: DsmServer): string =>
  createHash("sha256").update(JSON.stringify(server)).digest("base64url");

/** After three refused logins within five minutes, DSM blocks the address, by default for a day. */
const refusedForMs = 5 * 60_000;
const loginMs = 20_000;
const logoutMs = 3000;

/** Methods that change nothing; they are repeated if the answer was lost. */
const reads = /^(?:list|get|load)/;

/**
 * One account of one DSM, shared by all connections that use it. Logs in on the first call, and again once when the session
 * has ended. Secrets are sent in bodies only, never in a URL, which proxies and DSM log.
 */
export class DsmClient {
  readonly where: string;
  readonly #server: DsmServer;
  readonly #http: Http;
  readonly #turns: Semaphore;
  readonly #one = new Semaphore(1);
  readonly #changes: Semaphore;
  readonly #now: () => number;
  readonly #shown: () => void;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #refused: { readonly error: unknown; readonly until: number } | undefined;

  /** `turns` and `changes`, those of calls that run alone, are shared by all clients of the system. */
  constructor(
    server: DsmServer,
    turns: Semaphore,
    changes: Semaphore = new Semaphore(1),
    now: () => number = () => performance.now(),
  ) {
    this.where = originOf(server.http);
    this.#server = server;
    this.#http = httpClient(server.http);
    this.#turns = turns;
    this.#changes = changes;
    this.#now = now;
    this.#shown = keepSecret([server.password]);
  }

  /**
   * Returns the `data` of the answer. Calls of `owner`, a connection, take turns with the calls of others. If the answer of a
   * changing call is lost, the caller must check its outcome. Throws DsmError, HttpError, NotDsm, or CsiError if the call
   * ended while it waited.
   */
  call(owner: string, what: DsmCall, signal: AbortSignal): Promise<Row> {
    const asked = async () => {
      what.proof?.check(await this.#asked(what.proof.read, signal));
      return this.#asked(what, signal);
    };
    const turn = () => this.#turns.run(asked, signal, owner);
    const work = () => (what.alone ? this.#changes.run(turn, signal, owner) : turn());
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

  async #asked(what: DsmCall, signal: AbortSignal): Promise<Row> {
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

  /** Text is quoted: DSM parses every parameter as JSON, so digits without quotes would be a number. */
  #sent({ api, method, version = "1", params = {} }: DsmCall, session: Session, signal: AbortSignal): Promise<Row> {
    const given = Object.entries(params).filter(([, value]) => value !== undefined);
    const fields = Object.fromEntries(given.map(([key, value]) => [key, JSON.stringify(value)]));
    return this.#posted("entry.cgi", { api, method, version, ...fields }, session, signal);
  }

  async #posted(
    cgi: string,
    fields: Readonly<Record<string, string>> & { readonly api: string; readonly method: string },
    session: Session | undefined,
    signal: AbortSignal,
  ): Promise<Row> {
    // DSM 7.1 accepts the session in a cookie only, DSM 6 and later versions of DSM 7 also in the body.
    const headers = {
      "Content-Type": "application/x-www-form-urlencoded",
      ...(session && { Cookie: `id=${session.sid}` }),
      ...(session?.token !== undefined && { "X-SYNO-TOKEN": session.token }),
    };
    const body = new URLSearchParams({ ...fields, ...(session && { _sid: session.sid }) }).toString();
    const answer = await this.#http.send({ method: "POST", path: `/webapi/${cgi}`, headers, body }, signal);
    if (answer.status >= 500)
      throw new HttpError(this.where, "refused", `DSM answered with HTTP status ${answer.status}`);
    const data = answer.status === 200 ? answer.json() : undefined;
    // What a web server in front of DSM answers does not tell whether DSM has made the change.
    if (session && !reads.test(fields.method) && typeof (data as Row | null | undefined)?.["success"] !== "boolean")
      throw new HttpError(this.where, "lost", `${fields.api} ${fields.method} was not answered by DSM`);
    return dataOf(data, fields, this.where);
  }

  async #opened(signal: AbortSignal): Promise<Session> {
    if (this.#session) return this.#session;
    const ended = () => new HttpError(this.where, "cancelled", "the call ended before the system was reached");
    if (signal.aborted) throw ended();
    if (this.#refused && this.#now() < this.#refused.until) throw this.#refused.error;
    this.#opening ??= this.#login().finally(() => {
      this.#opening = undefined;
    });
    return unlessAborted(this.#opening, signal, ended);
  }

  /** Independent of the signal of any call, because others wait for the same login. */
  async #login(): Promise<Session> {
    const { username, password, session } = this.#server;
    const fields = {
      ...{ api: "SYNO.API.Auth", method: "login", version: "6", account: username, passwd: password },
      ...{ format: "sid", enable_syno_token: "yes", ...(session && { session }) },
    };
    try {
      const { sid, synotoken } = await this.#posted("auth.cgi", fields, undefined, AbortSignal.timeout(loginMs));
      if (typeof sid !== "string") throw new NotDsm(`${this.where} answered a login without a session`);
      this.#session = { sid, token: typeof synotoken === "string" ? synotoken : undefined };
      this.#refused = undefined;
      return this.#session;
    } catch (error) {
      if (refusesLogin(error)) this.#refused = { error, until: this.#now() + refusedForMs };
      throw error;
    }
  }
}

function dataOf(answer: unknown, { api, method }: { readonly api: string; readonly method: string }, where: string) {
  if (answer === undefined) throw new NotDsm(`${where} is not the web interface of a DSM (usually port 5000 or 5001)`);
  const { success, data, error } = (answer ?? {}) as {
    readonly success?: unknown;
    readonly data?: unknown;
    readonly error?: { readonly code?: unknown };
  };
  if (success !== true) throw new DsmError(api, method, Number(error?.code ?? 100));
  return typeof data === "object" && data !== null ? (data as Row) : {};
}

/** The number of concurrent calls of all connections to one system, whose web server is small. */
const callsAtOnce = 4;

const turns = semaphores(callsAtOnce);
const changes = semaphores(1);
const clients = new SharedInstances<DsmClient>(0);

/** A mapping in an answer of DSM. */
export type Row = Readonly<Record<string, unknown>>;

/** One connection's use of a DSM. Methods throw as DsmClient.call. */
export interface Dsm {
  readonly where: string;
  call(what: DsmCall, signal: AbortSignal): Promise<Row>;
  /** Ends the use; the last release logs out. */
  release(): Promise<void>;
}

/** A connection's use of a system, whose session and call slots are shared with other connections. Does no I/O. */
export function leasedDsm(server: DsmServer, connection: string): Dsm {
  const where = originOf(server.http);
  const { value, release } = clients.lease(
    serverKey(server),
    () => new DsmClient(server, turns(where), changes(where)),
  );
  return { where, call: (what, signal) => value.call(connection, what, signal), release };
}
