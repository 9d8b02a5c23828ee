import { HttpError, type HttpSettings, originOf } from "../../io/dial.ts";
import { type Http, httpClient } from "../../io/http.ts";
import { ApiError, errnos, NotTrueNas } from "./api-error.ts";
import { restTransport } from "./rest-transport.ts";
import { Redirect, rpcTransport } from "./rpc-transport.ts";
import type { Server } from "./server.ts";
import { type ApiTransport, type Limits, type SystemVersion, versionOf } from "./transport.ts";

/**
 * Logs in to a server: over JSON-RPC if /api/versions exists (25.04 and newer), else over REST. On a pair (High Availability), connects
 * to the active controller. Throws HttpError, LoginRefused, NotTrueNas or ApiError.
 */
export async function connected(server: Server, limits: Limits, signal: AbortSignal): Promise<ApiTransport> {
  try {
    return await connectedTo({ server, limits, signal }, server.http, true);
  } catch (error) {
    if (!(error instanceof Redirect)) throw error;
    return activeController({ server, limits, signal }, error.urls);
  }
}

/** A login that is requested. */
interface Login {
  readonly server: Server;
  readonly limits: Limits;
  readonly signal: AbortSignal;
}

/** Logs in at one address; without `rest` over JSON-RPC only. */
async function connectedTo(
  { server, limits, signal }: Login,
  settings: HttpSettings,
  rest: boolean,
): Promise<ApiTransport> {
  const http = httpClient(settings);
  let isUsed = false;
  try {
    const version = await jsonRpcVersion(http, signal);
    if (version) return await overRpc({ server, limits, signal }, settings, http, version);
    if (!rest) throw new NotTrueNas(`${http.where} does not answer as TrueNAS does`);
    const transport = await overRest(server, http, limits, signal);
    isUsed = true;
    return transport;
  } finally {
    if (!isUsed) http.close();
  }
}

/** The first version with a list of API versions, and with JSON-RPC for each of them (api/base/server/app.py of 25.04). */
const withJsonRpc = 2504;

/** The newest API version of the server, which is the last of its list; undefined if it has no JSON-RPC. */
async function jsonRpcVersion(http: Http, signal: AbortSignal): Promise<SystemVersion | undefined> {
  const request = { method: "GET", path: "/api/versions", timeoutMs: 10_000, maxBytes: 64 << 10 } as const;
  const { status, body } = await http.send(request, signal);
  if (status === 404) return undefined;
  if (status >= 300 && status < 400)
    throw new NotTrueNas(`${http.where} redirects elsewhere: write the protocol and port of https`);
  if (status !== 200) throw new HttpError(http.where, "unreachable", `HTTP ${status} instead of the list of versions`);
  const version = versionOf(lastOf(body));
  if (version) return version;
  throw new NotTrueNas(`${http.where} does not answer as TrueNAS does`);
}

function lastOf(body: string): string {
  try {
    const list: unknown = JSON.parse(body);
    return Array.isArray(list) ? String(list.at(-1)) : "";
  } catch {
    return "";
  }
}

/**
 * Logs in over JSON-RPC. Reads the version again afterwards: another system may have answered first, as when a controller of a pair is
 * upgraded and takes over. The socket ends with the system that opened it, so what is read while it is open holds for all its calls.
 */
async function overRpc(
  { server, limits, signal }: Login,
  settings: HttpSettings,
  http: Http,
  version: SystemVersion,
): Promise<ApiTransport> {
  const transport = await rpcTransport(server, settings, version, limits, signal);
  let isSame = false;
  try {
    isSame = (await jsonRpcVersion(http, signal))?.text === version.text;
  } finally {
    if (!isSame) transport.close();
  }
  if (isSame) return transport;
  throw new HttpError(http.where, "unreachable", `it was ${version.text} before the login and is another version now`);
}

async function overRest(server: Server, http: Http, { answerMs }: Limits, signal: AbortSignal): Promise<ApiTransport> {
  const unknown: SystemVersion = { text: "", number: 0 };
  const text = await restTransport(http, server.credentials, unknown, answerMs)
    .call("system.version", [], signal)
    .catch(error => {
      if (error instanceof ApiError && error.errno === errnos.noMethod)
        throw new NotTrueNas(`${http.where} is not a TrueNAS: it has neither /api/versions nor /api/v2.0`);
      throw error;
    });
  const version = versionOf(String(text));
  if (!version)
    throw new NotTrueNas(`${http.where} says that it is ${JSON.stringify(text)}, which is not a version of TrueNAS`);
  // It has the list of versions, so a front end answered 404 for it. REST has other parameters in these versions.
  if (version.number >= withJsonRpc)
    throw new HttpError(http.where, "unreachable", `HTTP 404 instead of the versions that ${version.text} lists`);
  return restTransport(http, server.credentials, version, answerMs);
}

/**
 * Connects to the active controller, at the first of these addresses that answers. Only hosts in the file are contacted, with the
 * protocol and port in the file: otherwise the server that answers a login could send the credentials anywhere.
 */
async function activeController(login: Login, urls: readonly string[]): Promise<ApiTransport> {
  const { server } = login;
  const standby = `${originOf(server.http)} is the standby controller`;
  let failed: unknown = new NotTrueNas(`${standby} and names no active one`);
  for (const url of urls) {
    const host = hostIn(url, server);
    if (host === undefined) {
      const advice = "give the address that both controllers share as host, or list the controllers as failoverHosts";
      failed = new NotTrueNas(`${standby} and names ${shortOf(url)}, which the connection does not allow; ${advice}`);
      continue;
    }
    const target = { ...server.http, host };
    try {
      // Pairs have JSON-RPC: the credentials are sent over nothing else.
      return await connectedTo(login, target, false);
    } catch (error) {
      failed = error instanceof Redirect ? new NotTrueNas(`${originOf(target)} is a standby controller, too`) : error;
    }
  }
  throw failed;
}

const shortOf = (url: string): string => JSON.stringify(url.slice(0, 200));

/** The host in an address that the file allows; undefined for any other address or port, or a protocol less safe than the file's. */
function hostIn(url: string, { http, failoverHosts }: Server): string | undefined {
  const text = url.includes("://") ? url : `${http.protocol}://${url}`;
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, port } = new URL(text);
  if (http.protocol === "https" && !/^(?:https|wss):$/.test(protocol)) return undefined;
  if (port !== "" && Number(port) !== http.port) return undefined;
  const bare = (host: string) => host.replace(/^\[|\]$/g, "").toLowerCase();
  return [http.host, ...failoverHosts].find(host => bare(host) === bare(hostname));
}
