import { HttpError } from "../../io/dial.ts";
import type { Http, HttpRequest } from "../../io/http.ts";
import { ApiError, type ApiRow, errnos, LoginRefused, type Problem } from "./api-error.ts";
import type { Credentials } from "./server.ts";
import type { ApiTransport, SystemVersion } from "./transport.ts";

/** REST v2.0 (TrueNAS CORE, and SCALE up to 24.10), called with the methods and parameters of JSON-RPC. */

/** The longest answer: enough for 20,000 datasets with the properties that a listing asks for. */
const maxBytes = 64 << 20;
/** How long the version of a system is assumed not to change, in milliseconds. */
const trustedMs = 300_000;

/** A transport over `http`; creating it sends nothing. The server's front end waits 60 s for the back end: see `timeoutMs`. */
export function restTransport(
  http: Http,
  credentials: Credentials,
  version: SystemVersion,
  timeoutMs: number,
): ApiTransport {
  const since = performance.now();
  const common = { Authorization: authorization(credentials), Accept: "application/json" };
  let upgraded = false;

  async function call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const { body, ...route } = routeOf(method, params);
    const text = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = body === undefined ? common : { ...common, "Content-Type": "application/json" };
    const answer = await http.send({ ...route, headers, ...text, timeoutMs, maxBytes }, signal);
    if (answer.status === 404 && method !== "system.version") await proveSame(signal);
    const result = resultOf(http.where, method, answer.status, answer.json());
    return Array.isArray(result) && queries.test(method) ? filtered(result, params[0]) : result;
  }

  /** Throws "lost" if the system was upgraded: the new version may not have the route. */
  async function proveSame(signal: AbortSignal): Promise<void> {
    if ((await call("system.version", [], signal)) === version.text || version.text === "") return;
    upgraded = true;
    throw new HttpError(http.where, "lost", "the system is of another version now");
  }

  return {
    version,
    call,
    /** True from time to time, so that the version is read again: REST does not show that a system was upgraded. */
    get over() {
      return upgraded || performance.now() - since > trustedMs;
    },
    close: () => http.close(),
  };
}

const authorization = (credentials: Credentials): string =>
  credentials.kind === "key"
    ? `Bearer ${credentials.key}`
    : `Basic ${Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64")}`;

interface Route extends Pick<HttpRequest, "method" | "path"> {
  readonly body?: unknown;
}

const base = "/api/v2.0";
/** Methods with filters. */
const queries = /\.(?:query|get_jobs)$/;
const plainGet = /^(?:system\.\w+|failover\.status|core\.ping)$/;
/** Methods that address one object by its id. */
const byItem = /\.(?:update|delete|promote|hold|release|rollback)$/;

/** The route of a method: collections for query and create, items for update and delete, else a route of its own. */
function routeOf(method: string, params: readonly unknown[]): Route {
  const at = method.lastIndexOf(".");
  const service = `${base}/${method.slice(0, at).replaceAll(".", "/")}`;
  const verb = method.slice(at + 1);
  const [first, second] = params;
  if (method === "core.get_jobs") return { method: "GET", path: `${base}/core/get_jobs${searchOf(first, second)}` };
  if (verb === "query") return { method: "GET", path: `${service}${searchOf(first, second)}` };
  if (verb === "config") return { method: "GET", path: service };
  if (verb === "create") return { method: "POST", path: service, body: first };
  if (plainGet.test(method)) return { method: "GET", path: `${service}/${verb}` };
  if (method === "filesystem.getacl")
    return { method: "POST", path: `${service}/${verb}`, body: { path: first, simplified: second } };
  if (!byItem.test(method)) return { method: "POST", path: `${service}/${verb}`, body: first };
  const item = `${service}/id/${encodeURIComponent(String(first))}`;
  if (verb === "update") return { method: "PUT", path: item, body: second };
  const rest = second === undefined ? {} : { body: second };
  return verb === "delete"
    ? { method: "DELETE", path: item, ...rest }
    : { method: "POST", path: `${item}/${verb}`, ...rest };
}

type Filter = readonly [field: string, operator: string, value: unknown];

/** Whether the server converts a text to a number, a boolean, null or a list (restful.py, normalize_query_parameter). */
function isLiteral(text: string): boolean {
  if (/^(?:true|false|null|-?Infinity|NaN)$/i.test(text)) return true;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Filters and options as a query string. Values that the server would convert are left out; filtered() applies them to the answer. */
function searchOf(filters: unknown, options: unknown): string {
  const search = new URLSearchParams();
  for (const [field, operator, value] of (filters ?? []) as readonly Filter[]) {
    const guessed = typeof value === "string" && isLiteral(value);
    if (operator === "=" && !guessed && (typeof value === "string" || typeof value === "number"))
      search.set(field, String(value));
  }
  const { extra = {} } = (options ?? {}) as { readonly extra?: Readonly<Record<string, unknown>> };
  for (const [key, value] of Object.entries(extra)) {
    if (typeof value === "boolean" || typeof value === "string") search.set(`extra.${key}`, String(value));
    if (Array.isArray(value)) search.set(`extra.${key}`, JSON.stringify(value));
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

const fits = (row: unknown, [field, operator, value]: Filter): boolean => {
  const found = (row as ApiRow)[field];
  if (operator === "=") return found === value;
  if (operator === "C=") return String(found).toLowerCase() === String(value).toLowerCase();
  if (operator === "in") return (value as readonly unknown[]).includes(found);
  throw new Error(`the operator ${operator} is not known here`);
};

/** The rows that match all filters, whatever the server made of the query string. */
const filtered = (rows: readonly unknown[], filters: unknown): readonly unknown[] =>
  rows.filter(row => ((filters ?? []) as readonly Filter[]).every(filter => fits(row, filter)));

function resultOf(where: string, method: string, status: number, value: unknown): unknown {
  // A login page of the user interface has status 200, too.
  if (status === 200 && value !== undefined) return value;
  if (status === 503) throw new HttpError(where, "unreachable", "HTTP 503");
  // From the front end: the back end could not be reached, has ended, or takes longer than the front end waits.
  if (status === 502 || status === 504)
    throw new HttpError(where, "lost", `HTTP ${status}: the server may have done it, or may still be doing it`);
  if (status === 401) throw new LoginRefused("AUTH_ERR");
  if (status === 403) throw new ApiError(method, errnos.denied, "not allowed");
  // Only for an unknown route; the answer for an unknown object is 422 (restful.py of 24.10).
  if (status === 404) throw new ApiError(method, errnos.noMethod, "HTTP 404 instead of an answer of the API");
  if (status === 422) throw refusal(method, value);
  throw new ApiError(method, 0, `HTTP ${status}${status === 200 ? " without an answer in JSON" : ""}`);
}

function refusal(method: string, body: unknown): ApiError {
  const fields = (body ?? {}) as ApiRow;
  if (typeof fields["message"] === "string")
    return new ApiError(method, Number(fields["errno"] ?? 0), fields["message"]);
  const problems = Object.entries(fields).flatMap(([attribute, list]) =>
    (Array.isArray(list) ? list : []).map((each: { readonly message?: unknown; readonly errno?: unknown }): Problem => {
      return { attribute, message: String(each.message), errno: Number(each.errno ?? errnos.invalid) };
    }),
  );
  return new ApiError(
    method,
    errnos.invalid,
    problems.map(each => `${each.attribute}: ${each.message}`).join("; "),
    problems,
  );
}
