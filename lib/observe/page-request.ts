import type { Socket } from "node:net";

/** The longest head of a request, in bytes, as in node:http; also the most that a client may send after it. */
const longestHead = 16 << 10;

/** What pages need of a request. */
export interface ClientRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly headers: { readonly host?: string | undefined; readonly authorization?: string | undefined };
  /** The address of the client, or of the proxy before it. */
  readonly from: string;
}

/**
 * Calls `then` once, with the first request of a client; undefined: it is not one of HTTP/1. Reads on without a use of it, so that the end
 * of the client is noticed. `hold` gets the bytes of a request that is not complete yet, and says whether they may be kept. Calls `leave`
 * for a client that leaves before its request, or sends too much.
 */
export function receive(
  socket: Socket,
  hold: (bytes: number) => boolean,
  then: (request: ClientRequest | undefined) => Promise<void>,
  leave: () => void,
): void {
  let head: string | undefined = "";
  let excess = 0;
  socket.on("end", () => head !== undefined && leave());
  socket.on("data", chunk => {
    if (head === undefined) {
      excess += chunk.length;
      if (excess > longestHead) leave();
      return;
    }
    const searched = Math.max(0, head.length - 3);
    head += chunk.toString("latin1").slice(0, longestHead);
    const end = head.indexOf("\r\n\r\n", searched);
    if (end < 0) {
      if (head.length > longestHead || !hold(head.length)) leave();
      return;
    }
    const text = head.slice(0, end);
    head = undefined;
    void then(requestOf(text, socket.remoteAddress ?? ""));
  });
}

/** The head of a request (RFC 9112). A header that occurs twice could be read differently by a proxy: undefined. */
function requestOf(head: string, from: string): ClientRequest | undefined {
  const [first = "", ...lines] = head.split("\r\n");
  const [, method, path] = /^([A-Z]+) ([^\s?]+)(?:\?\S*)? HTTP\/1\.[01]$/.exec(first) ?? [];
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name, value = ""] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined) return undefined;
    const key = name.toLowerCase();
    if (headers.has(key) && /^(?:host|authorization)$/.test(key)) return undefined;
    headers.set(key, value);
  }
  if (method === undefined || path === undefined) return undefined;
  return { method, path, headers: { host: headers.get("host"), authorization: headers.get("authorization") }, from };
}
