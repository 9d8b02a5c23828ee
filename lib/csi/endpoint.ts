import { CsiError } from "../core/errors.ts";

/** Where the server listens: a Unix socket file, or a host and port. With port 0 the system chooses one. */
export type Endpoint =
  | { readonly kind: "unix"; readonly path: string }
  | { readonly kind: "tcp"; readonly host: string; readonly port: number };

const forms = "write unix:///folder/csi.sock, a path, or tcp://host:port";

const nonsense = (text: string, why: string): CsiError =>
  new CsiError("invalid-argument", `endpoint "${text}" ${why}; ${forms}`);

function unix(text: string, path: string): Endpoint {
  if (path === "" || path.endsWith("/")) throw nonsense(text, "does not name a socket file");
  if (path.includes("\0")) throw nonsense(text, "contains a null character");
  return { kind: "unix", path };
}

function tcp(text: string, address: string): Endpoint {
  const parts = /^(\[[0-9A-Fa-f:.]+\]|[^\s:/[\]]+):(\d{1,5})$/.exec(address);
  const [, host, digits] = parts ?? [];
  if (host === undefined || digits === undefined) throw nonsense(text, "is not host:port");
  const port = Number(digits);
  if (port > 65_535) throw nonsense(text, "has a port above 65535");
  return { kind: "tcp", host, port };
}

/**
 * Parses an endpoint: `unix:///absolute/path`, `unix:path`, `tcp://host:port`, `host:port`, or a bare path.
 * A text without a scheme is host:port if it contains a colon and no slash, otherwise a path.
 * IPv6 hosts are written in brackets. Throws "invalid-argument" for anything else (CSI "CSI_ENDPOINT").
 */
export function parseEndpoint(text: string): Endpoint {
  if (text.startsWith("unix:///")) return unix(text, text.slice("unix://".length));
  if (text.startsWith("unix://")) throw nonsense(text, "has no absolute path after unix://");
  if (text.startsWith("unix:")) return unix(text, text.slice("unix:".length));
  if (text.startsWith("tcp://")) return tcp(text, text.slice("tcp://".length));
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(text)?.[1];
  if (scheme !== undefined) throw nonsense(text, `has the unknown scheme ${scheme}`);
  return !text.includes("/") && text.includes(":") ? tcp(text, text) : unix(text, text);
}
