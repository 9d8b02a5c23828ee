import { HttpError, type HttpSettings } from "../../io/dial.ts";
import { openRpc, RpcError, type RpcSocket } from "../../io/rpc.ts";
import { ApiError, errnos, LoginRefused, problemsIn } from "./api-error.ts";
import type { Credentials, Server } from "./server.ts";
import type { ApiTransport, Limits, SystemVersion } from "./transport.ts";

/** JSON-RPC 2.0 on one socket that stays open (TrueNAS 25.04 and newer). */

/** The longest requests that the server accepts before and after the login; a longer one closes the socket. */
const beforeLogin = 8192;
const afterLogin = 65_536;

/** The time limit for a login, in milliseconds: the server delays a client that logs in too often by up to ten seconds. */
export const loginMs = 30_000;

/** The answer of the standby controller of a pair to a login: the addresses of the active one. */
export class Redirect extends Error {
  override readonly name = "Redirect";
  readonly urls: readonly string[];
  constructor(urls: readonly string[]) {
    super("this is the standby controller");
    this.urls = urls;
  }
}

/** Opens a socket and logs in. Throws HttpError, LoginRefused, Redirect or ApiError. */
export async function rpcTransport(
  server: Server,
  http: HttpSettings,
  version: SystemVersion,
  limits: Limits,
  signal: AbortSignal,
): Promise<ApiTransport> {
  const state = { loggedIn: false };
  const path = "/api/current";
  const maxRequest = () => (state.loggedIn ? afterLogin : beforeLogin);
  const options = { path, maxRequest, answerMs: limits.answerMs };
  const socket = await openRpc(http, options, signal);
  try {
    await login(socket, server.credentials, signal);
    state.loggedIn = true;
    return transportOn(socket, server.credentials, version);
  } catch (error) {
    socket.close();
    throw error;
  }
}

function transportOn(socket: RpcSocket, credentials: Credentials, version: SystemVersion): ApiTransport {
  let running: Promise<void> | undefined;
  let over = false;
  void socket.closed.then(() => {
    over = true;
  });

  /** Whether a refusal means that the session has ended, not that a role is missing: auth.me needs a login and no role. */
  async function isEnded(error: unknown, signal: AbortSignal): Promise<boolean> {
    if (!(error instanceof ApiError)) return false;
    if (error.errno === errnos.notLoggedIn) return true;
    if (error.errno !== errnos.denied) return false;
    return asked(socket, "auth.me", [], signal).then(
      () => false,
      refusal => refusal instanceof ApiError,
    );
  }

  /** Logs in once for all calls that found the session ended; the login outlives the call that starts it. */
  async function again(before: Promise<void> | undefined): Promise<void> {
    if (running === before) running = login(socket, credentials, AbortSignal.timeout(loginMs));
    const mine = running;
    try {
      await mine;
    } catch (error) {
      if (running === mine) running = undefined;
      socket.close();
      throw error;
    }
  }

  return {
    version,
    get over() {
      return over;
    },
    async call(method, params, signal) {
      const before = running;
      try {
        return await asked(socket, method, params, signal);
      } catch (error) {
        if (!(await isEnded(error, signal))) throw error;
        await again(before);
        return asked(socket, method, params, signal);
      }
    },
    close: () => socket.close(),
  };
}

async function login(socket: RpcSocket, credentials: Credentials, signal: AbortSignal): Promise<void> {
  if (credentials.kind === "key" && credentials.user === undefined) {
    // auth.login_ex needs the user of a key, which older files do not have.
    if ((await asked(socket, "auth.login_with_api_key", [credentials.key], signal)) === true) return;
    throw new LoginRefused("AUTH_ERR");
  }
  const answer = await asked(socket, "auth.login_ex", [loginData(credentials)], signal);
  const { response_type, urls } = (answer ?? {}) as { readonly response_type?: unknown; readonly urls?: unknown };
  if (response_type === "SUCCESS") return;
  if (response_type === "REDIRECT") throw new Redirect(Array.isArray(urls) ? urls.map(String) : []);
  throw new LoginRefused(String(response_type));
}

function loginData(credentials: Credentials): object {
  const login_options = { user_info: false };
  if (credentials.kind === "key")
    return { mechanism: "API_KEY_PLAIN", username: credentials.user, api_key: credentials.key, login_options };
  return { mechanism: "PASSWORD_PLAIN", username: credentials.user, password: credentials.password, login_options };
}

async function asked(
  socket: RpcSocket,
  method: string,
  params: readonly unknown[],
  signal: AbortSignal,
): Promise<unknown> {
  try {
    return await socket.call(method, params, signal);
  } catch (error) {
    throw error instanceof RpcError ? apiError(socket.where, method, error) : error;
  }
}

/** The code for more than 20 concurrent calls; nothing was done. */
const tooMany = -32000;
const noMethod = -32601;

function apiError(where: string, method: string, { code, message, data }: RpcError): Error {
  if (code === tooMany) return new HttpError(where, "refused", "too many calls at once");
  if (code === noMethod) return new ApiError(method, errnos.noMethod, "this version has no such method");
  const { error, reason, extra } = (data ?? {}) as Readonly<Record<string, unknown>>;
  const text = typeof reason === "string" && reason !== "" ? reason : message;
  return new ApiError(method, typeof error === "number" ? error : 0, text, problemsIn(extra));
}
