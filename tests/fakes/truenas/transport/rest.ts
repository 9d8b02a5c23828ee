import { CallError } from "../failure.ts";

/**
 * REST v2.0: which method a route means, with which parameters (restful.py of TS-24.10.2.4; values of the query string:
 * normalize_query_parameter).
 */

export interface RestCall {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** Values of the query string lose their type: what is JSON is taken for that (normalize_query_parameter). */
function converted(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

const operators: Readonly<Record<string, string>> = { eq: "=", neq: "!=", gt: ">", lt: "<", regex: "~" };

function filtersOf(search: URLSearchParams): readonly unknown[] {
  const filters: unknown[] = [];
  const options: Record<string, unknown> = {};
  const extra: Record<string, unknown> = {};
  for (const [key, value] of search) {
    if (key === "limit" || key === "offset" || key === "count") options[key] = converted(value);
    else if (key === "sort") options["order_by"] = value.split(",");
    else if (key.startsWith("extra.")) extra[key.slice("extra.".length)] = converted(value);
    else {
      const [field = "", operator = "eq"] = key.split("__", 2);
      filters.push([field, operators[operator] ?? operator, converted(value)]);
    }
  }
  return [filters, { ...options, extra }];
}

/** Services whose objects have text as their id. */
const named = /^(?:pool\.dataset|zfs\.snapshot|pool\.snapshot)$/;
/** Methods without parameters, or with a query's. */
const readOnly = /\.(?:query|config|version|version_short|product_type|status|get_jobs|ping|boot_id)$/;
/** Methods of several parameters take them as an object by name. */
const byName: Readonly<Record<string, readonly string[]>> = {
  "service.reload": ["service", "service-control"],
  "iscsi.extent.delete": ["remove", "force"],
  "filesystem.getacl": ["path", "simplified"],
};

/** The call of a request below /api/v2.0; undefined if there is no such route. */
export function restCall(verb: string, url: URL, body: unknown): RestCall | undefined {
  const path = url.pathname.replace(/^\/api\/v2\.0\//, "").replace(/\/$/, "");
  const [, service, id, action] = /^(.+?)\/id\/([^/]+)(?:\/(.+))?$/.exec(path) ?? [];
  if (service !== undefined && id !== undefined)
    return itemCall(verb, service.replaceAll("/", "."), id, action, body, url);
  const name = path.replaceAll("/", ".");
  if (verb === "POST") {
    const last = name.split(".").at(-1) ?? "";
    if (/^(?:pool\.dataset|[a-z]+\.snapshot|sharing\.\w+|iscsi\.\w+|nvmet\.\w+)$/.test(name))
      return { method: `${name}.create`, params: [body] };
    if (last === "get_instance") return undefined;
    const keys = byName[name];
    const params = keys
      ? keys.map(key => (body as Readonly<Record<string, unknown>>)[key])
      : body === undefined
        ? []
        : [body];
    return { method: name, params };
  }
  if (verb !== "GET") return undefined;
  if (name === "iscsi.global" || name === "nvmet.global") return { method: `${name}.config`, params: [] };
  if (name === "core.get_jobs") return { method: name, params: filtersOf(url.searchParams) };
  if (readOnly.test(name)) return { method: name, params: [] };
  return { method: `${name}.query`, params: filtersOf(url.searchParams) };
}

function itemCall(
  verb: string,
  service: string,
  text: string,
  action: string | undefined,
  body: unknown,
  url: URL,
): RestCall | undefined {
  const id: unknown = named.test(service) ? decodeURIComponent(text) : Number(decodeURIComponent(text));
  if (action !== undefined) return { method: `${service}.${action}`, params: body === undefined ? [id] : [id, body] };
  if (verb === "PUT") return { method: `${service}.update`, params: [id, body] };
  if (verb === "DELETE") {
    const keys = byName[`${service}.delete`];
    const rest = keys
      ? keys.map(key => (body as Readonly<Record<string, unknown>> | undefined)?.[key])
      : body === undefined
        ? []
        : [body];
    return { method: `${service}.delete`, params: [id, ...rest] };
  }
  if (verb !== "GET") return undefined;
  const [, options] = filtersOf(url.searchParams);
  return { method: `${service}.query`, params: [[["id", "=", id]], { ...(options as object), get: true }] };
}

/** What a missing object answers. */
export const isMissing = (error: unknown): boolean => error instanceof CallError && error.trace === "MatchNotFound";
