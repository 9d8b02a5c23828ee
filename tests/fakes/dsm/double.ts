import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { passing } from "../../waiting.ts";
import { Faults } from "../truenas/faults.ts";
import { lunMethods } from "./luns.ts";
import { DsmFailure, type Params, paramsOf } from "./params.ts";
import { shareApis } from "./shares.ts";
import { State } from "./state.ts";
import { storageMethods, systemMethods, targetMethods } from "./targets.ts";

// DSM's source is not public. A rule of this folder names a client of DSM whose source is public, or is marked as assumed. Those without a
// remark are what every such client takes for granted, the official driver first (SynologyOpenSource/synology-csi 2807900): names of
// fields, errors 105 to 119, 400, 402, 403, 407, 3301, 3309, 3328, 18990002, 18990531, 18990532, 18990538, 18990542, 18990543, 18990710.

interface Session {
  readonly account: string;
  readonly token: string | undefined;
  /** Why it is over: the number that DSM answers. */
  over: number | undefined;
}

/** One request, as it was recorded. */
export interface Recorded {
  readonly api: string;
  readonly method: string;
  readonly account: string;
  readonly params: Params;
  readonly url: string;
}

const apis: Readonly<Record<string, Readonly<Record<string, (state: State, params: Params) => unknown>>>> = {
  "SYNO.Core.ISCSI.LUN": lunMethods,
  "SYNO.Core.ISCSI.Target": targetMethods,
  "SYNO.Core.Storage.Volume": storageMethods,
  "SYNO.Core.System": systemMethods,
  ...shareApis,
};

/** The highest version of each API that has more than one; of snapshots of shared folders the second can only list (kwent/syno 80ca8ea, definitions/7.x). */
const versions: Readonly<Record<string, number>> = {
  "SYNO.Core.System": 3,
  "SYNO.Core.FileServ.NFS": 2,
  "SYNO.Core.Share.Snapshot": 2,
};

/** 104: there is no such version, 103: it has no such method. */
function checkVersion(api: string, method: string, version: unknown): void {
  const number = Number(version);
  if (!(number >= 1 && number <= (versions[api] ?? 1))) throw new DsmFailure(104);
  if (api === "SYNO.Core.Share.Snapshot" && number === 2 && method !== "list") throw new DsmFailure(103);
}

const password = "secret-pw";

/** A DSM of version 6 or 7 on a port of loopback. Every account has the password "secret-pw". */
export class Dsm {
  readonly state: State;
  readonly faults = new Faults();
  readonly requests: Recorded[] = [];
  readonly sessions = new Map<string, Session>();
  /** Numbers to answer to the next requests of "api method", one each. */
  readonly answers = new Map<string, number[]>();
  /** "api method" that does what it is asked for and answers with this number, once. */
  readonly #refusedAfter = new Map<string, number>();
  /** What every login is answered with, for example 407: this address is blocked. */
  loginRefusal: number | undefined;
  /** No administrator: every call is answered with this. */
  denial: number | undefined;
  latencyMs = 0;
  #isChanging = false;
  #settledAt = 0;
  /** Requests that are being served, and the most that were at once. */
  running = 0;
  most = 0;
  port = 0;
  /** It takes requests and never answers. */
  frozen = false;
  /** What becomes of the text of an answer on its way; `request` is "api method". */
  mangle: ((text: string, request: string) => string) | undefined;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  constructor(version: 6 | 7 = 7) {
    this.state = new State(version);
  }

  async listen(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    this.port = typeof address === "object" && address !== null ? address.port : 0;
    return this;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>(resolve => this.#server.close(() => resolve()));
  }

  /** Every session ends; its next request is answered with `code`: 106 timed out, 107 another login, 119 unknown. */
  endSessions(code: number): void {
    for (const session of this.sessions.values()) session.over = code;
  }

  /** The next "api method" does what it is asked for, and says with this number that it did not. */
  refuseAfter(what: string, code: number): void {
    this.#refusedAfter.set(what, code);
  }

  /** It answers again; what was asked meanwhile stays without an answer, its connections end. */
  thaw(): void {
    this.frozen = false;
    this.#server.closeAllConnections();
  }

  /** Requests of a method, since the start. */
  count(method: string): number {
    return this.requests.filter(each => each.method === method).length;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    if (this.frozen) return;
    const url = new URL(request.url ?? "/", "http://nas");
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    const params = paramsOf(new URLSearchParams([...url.searchParams, ...form]));
    const api = String(params["api"]);
    const method = String(params["method"]);
    const sid = this.#sid(request, params);
    const account = method === "login" ? String(params["account"]) : (this.sessions.get(sid)?.account ?? "");
    this.requests.push({ api, method, account, params, url: request.url ?? "" });
    const lost = this.faults.next(account, `${api} ${method}`);
    if (lost === "before") return void request.socket.destroy();
    const full =
      method !== "login" &&
      method !== "logout" &&
      (await this.faults.isFull(account, `${api} ${method} ${JSON.stringify(params)}`));
    this.most = Math.max(this.most, ++this.running);
    // A slow system.
    if (this.latencyMs > 0) await passing(this.latencyMs);
    // SYNO.Core.ISCSI.*: 18990002 (SynologyOpenSource/synology-csi 2807900); SYNO.Core.Share: 3320 "not enough free space" (N4S4/synology-api error_codes.py).
    const code = api.includes("ISCSI") ? 18990002 : api.includes("Share") ? 3320 : 117;
    const busy = await this.#beginChange(api, method);
    const body =
      full || busy !== undefined
        ? { success: false, error: { code: busy ?? code } }
        : this.#answer(api, method, params, request, sid);
    this.running--;
    if (lost === "after") return void request.socket.destroy();
    response.writeHead(200, { "content-type": "application/json; charset=UTF-8" });
    const text = JSON.stringify(body);
    response.end(this.mangle && method !== "login" ? this.mangle(text, `${api} ${method}`) : text);
  }

  /**
   * One change of shared folders at a time: while one runs, another is answered with 3328, a save of NFS rules with 2370; while one settles, with
   * 3300 (batonogov/terraform-provider-synology-dsm 2462b21, client.go, on 7.4; SynologyOpenSource/synology-csi issue 139). Returns the refusal.
   */
  async #beginChange(api: string, method: string): Promise<number | undefined> {
    const saves = api === "SYNO.Core.FileServ.NFS.SharePrivilege" && method === "save";
    if (!saves && !(api === "SYNO.Core.Share" && /^(?:create|clone|set|delete)$/.test(method))) return undefined;
    if (this.#isChanging) return saves ? 2370 : 3328;
    if (performance.now() < this.#settledAt) return 3300;
    this.#isChanging = true;
    const { changeMs, settleMs } = this.state.habits;
    // Changes of shared folders take time.
    await passing(changeMs);
    this.#isChanging = false;
    this.#settledAt = performance.now() + settleMs;
    return undefined;
  }

  /** DSM 7 takes the session of a cookie only (7.1.1: jasoncheng7115/jt-pve-storage-synology 9a96fa3, TESTING.md), DSM 6 that of a parameter too. */
  #sid(request: IncomingMessage, params: Params): string {
    const [, cookie] = /(?:^|;\s*)id=([^;]+)/.exec(request.headers.cookie ?? "") ?? [];
    return cookie ?? (this.state.habits.version === 6 ? String(params["_sid"] ?? "") : "");
  }

  #answer(api: string, method: string, params: Params, request: IncomingMessage, sid: string): object {
    try {
      const planned = this.answers.get(`${api} ${method}`)?.shift();
      if (planned !== undefined) throw new DsmFailure(planned);
      if (api === "SYNO.API.Auth") return { success: true, data: this.#auth(method, params, sid) };
      this.#checkSession(request, sid);
      const work = apis[api]?.[method];
      if (!apis[api]) throw new DsmFailure(102);
      if (!work) throw new DsmFailure(103);
      checkVersion(api, method, params["version"]);
      const data = work(this.state, params);
      const refused = this.#refusedAfter.get(`${api} ${method}`);
      this.#refusedAfter.delete(`${api} ${method}`);
      if (refused !== undefined) throw new DsmFailure(refused);
      return { success: true, data };
    } catch (error) {
      if (error instanceof DsmFailure) return { success: false, error: { code: error.code } };
      throw error;
    }
  }

  #auth(method: string, params: Params, sid: string): object {
    if (method === "logout") {
      this.sessions.delete(sid);
      return {};
    }
    if (this.loginRefusal !== undefined) throw new DsmFailure(this.loginRefusal);
    if (params["passwd"] !== password) throw new DsmFailure(400);
    const made = randomBytes(12).toString("hex");
    const token = this.state.habits.version === 7 && params["enable_syno_token"] === "yes" ? `t-${made}` : undefined;
    this.sessions.set(made, { account: String(params["account"]), token, over: undefined });
    return { sid: made, ...(token !== undefined && { synotoken: token }) };
  }

  #checkSession(request: IncomingMessage, sid: string): void {
    const session = this.sessions.get(sid);
    if (!session) throw new DsmFailure(119);
    if (session.over !== undefined) throw new DsmFailure(session.over);
    // Protection against forged requests is switched on in DSM 7: without the token this reads like a missing right.
    if (this.state.habits.version === 7 && request.headers["x-syno-token"] !== session.token) throw new DsmFailure(105);
    if (this.denial !== undefined) throw new DsmFailure(this.denial);
  }
}

/** Starts a double. */
export const startDsm = (version: 6 | 7 = 7): Promise<Dsm> => new Dsm(version).listen();
