import { createHash, timingSafeEqual } from "node:crypto";
import { isIPv4 } from "node:net";
import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { RepeatedLines } from "../core/log.ts";
import type { ClientRequest, HttpPage } from "./page-server.ts";

/** The shortest token accepted, in characters. */
const shortest = 16;

/** How often wrong tokens of one address are logged, in milliseconds. */
const wrongMs = 60_000;

/** Whether only this machine, or this pod, can reach a host; IPv6 in brackets. */
export const isLoopback = (host: string): boolean =>
  /^(?:localhost|\[::1\])$/i.test(host) || (host.startsWith("127.") && isIPv4(host));

/** Why a request is refused; undefined if it is not. */
export type Gate = (request: ClientRequest) => Promise<HttpPage | undefined>;

/**
 * Admits requests with the token, as a bearer token (RFC 6750) or as the password of any user (RFC 7617), which browsers ask
 * for. `token` is called for each request, because Kubernetes replaces files of Secrets. Throws "failed-precondition" if
 * there is none, or a short one.
 */
export async function tokenGate(
  file: string,
  token: () => Promise<string | undefined>,
  log: Log,
  now: () => number = () => performance.now(),
): Promise<Gate> {
  const current = async () => {
    const text = (await token().catch(() => undefined))?.trim();
    return text !== undefined && text.length >= shortest ? text : undefined;
  };
  if ((await current()) === undefined)
    throw new CsiError("failed-precondition", `${file} must contain a token of at least ${shortest} characters`);
  const wrong = new RepeatedLines(wrongMs, now);
  return async ({ headers: { authorization = "" }, from }) => {
    const wanted = await current();
    const given = tokenOf(authorization);
    if (wanted !== undefined && given !== undefined && timingSafeEqual(digest(wanted), digest(given))) return undefined;
    // A limit would keep out those with the token who have the same address, behind a proxy; if not those, it stops no guess.
    const times = given === undefined ? undefined : wrong.due(from);
    if (times !== undefined) log.warn("the status page got a wrong token", { from, ...(times > 0 && { times }) });
    const headers = { "WWW-Authenticate": 'Basic realm="csimux: the token is the password", charset="UTF-8"' };
    return { status: 401, headers, text: "the page of csimux requires its token\n" };
  };
}

/** Digests have equal lengths, so a comparison takes the same time for every text. */
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

function tokenOf(authorization: string): string | undefined {
  const [, scheme = "", value = ""] = /^(\S+) +(\S+)$/.exec(authorization) ?? [];
  if (scheme.toLowerCase() === "bearer") return value;
  if (scheme.toLowerCase() !== "basic") return undefined;
  return Buffer.from(value, "base64").toString("utf8").split(":").slice(1).join(":");
}

/**
 * Admits requests to a loopback name. A web page elsewhere could otherwise read the page through a browser on this machine,
 * with a name of its own that resolves to the loopback address (DNS rebinding).
 */
export const loopbackGate: Gate = async ({ headers: { host = "" } }) =>
  isLoopback(host.replace(/:\d+$/, ""))
    ? undefined
    : { status: 403, text: "without a token, the page of csimux is served only under localhost, 127.0.0.1 or [::1]\n" };
