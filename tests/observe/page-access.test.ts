import { expect, test } from "bun:test";
import { isLoopback, loopbackGate, tokenGate } from "../../lib/observe/page-access.ts";

const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;

test("only the token opens the page, as a bearer token or as the password of any user; a new token counts at once", async () => {
  let token: string | undefined = "0123456789abcdef:x\n";
  const gate = await tokenGate("/t", async () => token);
  const status = async (authorization: string | undefined) => (await gate({ headers: { authorization } }))?.status;
  const right = [
    "Bearer 0123456789abcdef:x",
    "bearer 0123456789abcdef:x",
    basic("any:0123456789abcdef:x"),
    basic(":0123456789abcdef:x"),
  ];
  for (const each of right) expect([each, await status(each)]).toEqual([each, undefined]);
  const wrong = [
    undefined,
    "",
    "Bearer",
    "Bearer ",
    "Bearer 0123456789abcdef",
    "Basic",
    basic("0123456789abcdef:x"),
    basic("a:b"),
    "Digest 0123456789abcdef:x",
  ];
  for (const each of wrong) expect([each, await status(each)]).toEqual([each, 401]);
  const refused = await gate({ headers: {} });
  expect(refused?.headers?.["WWW-Authenticate"]).toStartWith("Basic ");
  token = "another-token-of-a-day";
  expect(await status("Bearer 0123456789abcdef:x")).toBe(401);
  expect(await status("Bearer another-token-of-a-day")).toBeUndefined();
});

test("without a token of sufficient length nothing is served, and no request is admitted while the file is missing or empty", async () => {
  for (const text of [undefined, "", "short", "   \n"])
    await expect(tokenGate("/t", async () => text)).rejects.toThrow(
      "/t must contain a token of at least 16 characters",
    );
  let token: string | undefined = "0123456789abcdef";
  const gate = await tokenGate("/t", async () => token);
  for (const gone of [undefined, "", "0123"]) {
    token = gone;
    for (const authorization of ["Bearer ", `Bearer ${gone}`, basic("a:")])
      expect((await gate({ headers: { authorization } }))?.status).toBe(401);
  }
});

test("without a token, only names of the loopback are served: another name may be a web page that resolves to it", async () => {
  const status = async (host: string | undefined) => (await loopbackGate({ headers: { host } }))?.status;
  for (const host of ["localhost:80", "localhost", "127.0.0.1:9", "127.1.2.3", "[::1]:9"])
    expect(await status(host)).toBeUndefined();
  for (const host of [undefined, "", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "[::2]"])
    expect(await status(host)).toBe(403);
  expect(["", "0.0.0.0", "[::]", "10.0.0.1", "host"].filter(isLoopback)).toEqual([]);
});
