import type { IncomingMessage, ServerResponse } from "node:http";
import { passing } from "../../../waiting.ts";
import type { Session } from "../accounts.ts";
import { type Core, fitting, invoked, knows } from "../core.ts";
import { checkRequest } from "../facts/check.ts";
import { CallError, Invalid, restErrorOf } from "../failure.ts";
import { sendResponse } from "./delivery.ts";
import { isMissing, restCall } from "./rest.ts";

/**
 * REST v2.0 on one system: every request is a login of its own (restful.py of TS-24.10.2.4). A refusal is text: what authenticate() says from
 * 24.10 on, or what web.HTTPException of aiohttp says itself, "401: Unauthorized"; that of a role is empty.
 */

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const text = Buffer.concat(chunks).toString("utf8");
  return text === "" ? undefined : JSON.parse(text);
}

function sessionOf({ accounts }: Core, header: string | undefined): Session | undefined {
  accounts.restLogins++;
  const [scheme, value = ""] = (header ?? "").split(" ", 2);
  const found =
    scheme === "Bearer"
      ? accounts.byKey(value, undefined)
      : accounts.byPassword(...(Buffer.from(value, "base64").toString("utf8").split(":", 2) as [string, string]));
  return typeof found === "string" ? undefined : found;
}

const own: Readonly<Record<string, (core: Core, params: readonly unknown[], session: Session) => unknown>> = {
  "core.get_jobs": ({ jobs, accounts }, [filters, options], session) =>
    jobs.query(filters, options, { user: session.user, fullAdmin: accounts.isFullAdmin(session) }),
  "core.job_abort": ({ jobs }, [id]) => jobs.abort(id) ?? null,
  "core.ping": () => "pong",
};

/** Answers a request below /api/v2.0, or cuts its connection where a fault says so. */
export async function answerRest(
  core: Core,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const say = (status: number, body: unknown) =>
    sendResponse(response, core.deliver({ text: JSON.stringify(body ?? null), status }));
  const session = sessionOf(core, request.headers.authorization);
  const plain = (status: number, text: string) => sendResponse(response, core.deliver({ text, status }));
  if (!session) return plain(401, whyUnauthorized(core, request.headers.authorization));
  const call = restCall(request.method ?? "GET", url, await bodyOf(request));
  if (!call || !(own[call.method] || knows(core, call.method))) return plain(404, "404: Not Found");
  const { method, params } = call;
  const intercepted = core.intercept(method);
  if (intercepted) return sendResponse(response, intercepted);
  const fault = own[method] ? undefined : core.faults.next(session.credential, method);
  if (fault === "before") return void request.socket.destroy();
  if (!own[method]) core.record("rest", method, params);
  // A slow system.
  if (core.latencyMs > 0) await passing(core.latencyMs);
  if (core.hasEnded()) return;
  const [status, body] = await outcome(core, session, method, params);
  if (fault === "after") return void request.socket.destroy();
  if (fault === "unanswered" || fault === "hung") return;
  if (fault === "garbled") return void response.end(JSON.stringify(body).slice(0, -1));
  if (status === 403) plain(status, "");
  else say(status, body);
}

function whyUnauthorized({ nas }: Core, header = ""): string {
  if (nas.number < 2410 || header === "") return "401: Unauthorized";
  return header.startsWith("Bearer ") ? "Invalid API key" : "Bad username or password";
}

async function outcome(
  core: Core,
  session: Session,
  method: string,
  params: readonly unknown[],
): Promise<readonly [number, unknown]> {
  try {
    const mine = own[method];
    if (mine) {
      checkRequest(core.nas.version, method, params);
      return [200, fitting(core.nas.version, method, mine(core, params, session))];
    }
    const { result, job } = await invoked(core, session, method, params);
    return [200, job ? job.id : await result];
  } catch (error) {
    if (isMissing(error)) return [404, { message: "" }];
    if (!(error instanceof Invalid || error instanceof CallError)) throw error;
    const { status, body } = restErrorOf(error);
    return [status, body];
  }
}
