import { expect, test } from "bun:test";
import { isLoopback, loopbackGate, tokenGate } from "../../lib/observe/page-access.ts";
import { testCall } from "../fakes/memory-driver.ts";

const from = "10.0.0.1";
const { log } = testCall();
const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;

test("only the token opens the page, as a bearer token or as the password of any user; a new token counts at once", async () => {
  let token: string | undefined = "0123456789abcdef:x\n";
  const gate = await tokenGate("/t", async () => token, log);
  const status = async (authorization: string | undefined) =>
    (await gate({ headers: { authorization }, from }))?.status;
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
  const refused = await gate({ headers: {}, from });
  expect(refused?.headers?.["WWW-Authenticate"]).toStartWith("Basic ");
  token = "another-token-of-a-day";
  expect(await status("Bearer 0123456789abcdef:x")).toBe(401);
  expect(await status("Bearer another-token-of-a-day")).toBeUndefined();
});

test("without a token of sufficient length nothing is served, and no request is admitted while the file is missing or empty", async () => {
  for (const text of [undefined, "", "short", "   \n"])
    await expect(tokenGate("/t", async () => text, log)).rejects.toThrow(
      "/t must contain a token of at least 16 characters",
    );
  let token: string | undefined = "0123456789abcdef";
  const gate = await tokenGate("/t", async () => token, log);
  for (const gone of [undefined, "", "0123"]) {
    token = gone;
    for (const authorization of ["Bearer ", `Bearer ${gone}`, basic("a:")])
      expect((await gate({ headers: { authorization }, from }))?.status).toBe(401);
  }
});

test("without a token, only names of the loopback are served: another name may be a web page that resolves to it", async () => {
  const status = async (host: string | undefined) => (await loopbackGate({ headers: { host }, from }))?.status;
  for (const host of ["localhost:80", "localhost", "127.0.0.1:9", "127.1.2.3", "[::1]:9"])
    expect(await status(host)).toBeUndefined();
  for (const host of [
    undefined,
    "",
    "evil.example",
    "127.0.0.1.evil.example:80",
    "127.999.999.999:9735",
    "127.1",
    "localhost.evil",
    "[::2]",
  ])
    expect(await status(host)).toBe(403);
  expect(["", "0.0.0.0", "[::]", "10.0.0.1", "host"].filter(isLoopback)).toEqual([]);
});

test("wrong tokens are logged once a minute for each address, and the right one opens the page at any time", async () => {
  const warned: string[] = [];
  const warn = (message: string, fields?: object) => void warned.push(`${message} ${JSON.stringify(fields)}`);
  let now = 0;
  const gate = await tokenGate(
    "/t",
    async () => "0123456789abcdef",
    { ...log, warn },
    () => now,
  );
  const status = async (address: string, authorization?: string) =>
    (await gate({ headers: { authorization }, from: address }))?.status;
  for (let at = 0; at < 100; at++) expect(await status("10.0.0.1")).toBe(401);
  expect(warned).toEqual([]);
  for (let at = 0; at < 30; at++) expect(await status("10.0.0.1", `Bearer 0123456789abcd${at}`)).toBe(401);
  // Others may have the same address, behind a proxy.
  expect(await status("10.0.0.1", "Bearer 0123456789abcdef")).toBeUndefined();
  expect(await status("10.0.0.2", "Bearer 0")).toBe(401);
  now = 60_000;
  expect(await status("10.0.0.1", "Bearer 0")).toBe(401);
  expect(warned).toEqual([
    'the status page got a wrong token {"from":"10.0.0.1"}',
    'the status page got a wrong token {"from":"10.0.0.2"}',
    'the status page got a wrong token {"from":"10.0.0.1","times":29}',
  ]);
});
