import { createServer, type ServerResponse } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";

/**
 * A TrueNAS or a DSM that lets anybody log in and then answers as it should not: run with the name of a form, it writes its port.
 * Of TrueNAS it is one that speaks JSON-RPC, and one that speaks REST where the form says "rest".
 */

const [kind = "", form = ""] = process.argv.slice(2);
const mebibyte = 1 << 20;

/** The text of an answer in pieces, endless where the form has no end. */
function* text(head: string, tail: string): Generator<string> {
  if (form === "numbers") {
    yield `${head}[`;
    for (let n = 0; n < 60; n++) yield "1,".repeat(mebibyte / 2);
    yield `1]${tail}`;
  } else if (form === "empty objects") {
    yield `${head}[`;
    for (let n = 0; n < 60; n++) yield "{},".repeat(mebibyte / 3);
    yield `{}]${tail}`;
  } else if (form === "200 MiB") {
    yield `${head}[`;
    for (let n = 0; n < 200; n++) yield `"${"x".repeat(mebibyte - 3)}",`;
    yield `1]${tail}`;
  } else if (form === "deep") {
    yield head;
    for (let n = 0; n < 20; n++) yield "[".repeat(mebibyte);
  } else if (form === "rows") {
    yield `${head}[`;
    for (let n = 0; n < 40_000; n++)
      yield `{"id":"tank/v${n}","properties":{"used":{"rawvalue":"${n}","parsed":${n}}}},`;
    yield `{"id":"last"}]${tail}`;
  } else {
    yield head;
    for (;;) yield "x".repeat(mebibyte);
  }
}

async function answer(response: ServerResponse, head: string, tail: string): Promise<void> {
  response.writeHead(200, { "content-type": "application/json" });
  for (const piece of text(head, tail)) {
    if (response.destroyed) return;
    await new Promise(resolve => response.write(piece, resolve));
  }
  response.end();
}

const server = createServer((request, response) => {
  const say = (status: number, body: unknown) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };
  const { pathname } = new URL(request.url ?? "/", "http://nas");
  if (kind === "dsm") {
    if (pathname.endsWith("/auth.cgi")) return say(200, { success: true, data: { sid: "1", synotoken: "1" } });
    return void answer(response, '{"success":true,"data":{"luns":', "}}");
  }
  if (pathname === "/api/versions") return kind === "rpc" ? say(200, ["v25.10.0"]) : say(404, {});
  if (pathname === "/api/v2.0/system/version") return say(200, "TrueNAS-SCALE-24.10.2");
  return void answer(response, "", "");
});

const sockets = new WebSocketServer({ server, path: "/api/current" });

async function frames(socket: WebSocket, head: string, tail: string): Promise<void> {
  // As fragments of one message, which may have no end (RFC 6455, 5.4).
  for (const piece of text(head, tail)) {
    if (socket.readyState !== socket.OPEN) return;
    await new Promise(resolve => socket.send(piece, { fin: false }, resolve));
  }
  socket.send("", { fin: true });
}

sockets.on("connection", (socket: WebSocket) => {
  socket.on("error", () => {});
  socket.on("message", data => {
    const { id, method } = JSON.parse(String(data)) as { readonly id: number; readonly method: string };
    if (method.startsWith("auth.")) return socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: true }));
    void frames(socket, `{"jsonrpc":"2.0","id":${id},"result":`, "}");
  });
});

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address ? address.port : 0}\n`);
});
