import { expect, test } from "bun:test";
import { once } from "node:events";
import { createServer } from "node:net";
import { answersTcp } from "../../lib/io/dial.ts";

const calm = new AbortController().signal;

test("only a server that accepts connections answers, and nothing does once the call has ended", async () => {
  const server = createServer(socket => socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  expect(await answersTcp("127.0.0.1", port, calm)).toBe(true);
  expect(await answersTcp("127.0.0.1", port, AbortSignal.abort())).toBe(false);
  server.close();
  await once(server, "close");
  expect(await answersTcp("127.0.0.1", port, calm)).toBe(false);
  expect(await answersTcp("no-such-host.invalid", port, calm)).toBe(false);
});
