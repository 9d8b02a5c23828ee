import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { build } from "../../scripts/build.ts";
import { type Rig, startRig } from "../csi/rig.ts";

let ready: boolean | undefined = true;
let rig: Rig;
let tcp = "";
beforeEach(async () => {
  rig = await startRig({ probe: () => (ready === undefined ? {} : { ready }) });
  tcp = await rig.server.listen({ kind: "tcp", host: "127.0.0.1", port: 0 });
});
afterEach(() => rig.end());

/** `csimux probe` with exactly this environment. */
async function probe(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(await build(), ["probe", ...args], { env, stdio: ["ignore", "ignore", "pipe"], timeout: 20_000 });
  let text = "";
  child.stderr.on("data", chunk => {
    text += chunk;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, text };
}

describe("csimux probe", () => {
  test.each([
    [true, 0],
    [undefined, 0],
    [false, 1],
  ])("takes ready %p for exit code %d", async (answer, code) => {
    ready = answer;
    expect((await probe(["--csi-version=1.5.0", `--csi-address=${rig.path}`])).code).toBe(code);
    ready = true;
  });

  test("takes flags that it does not know, as the original does", async () => {
    const args = ["--tomorrow=1", "--verbose", `--csi-address=unix://${rig.path}`];
    expect(await probe(args)).toEqual({ code: 0, text: "" });
  });

  test("takes no address without a flag, although the environment has one", async () => {
    const { code, text } = await probe(["unix:///elsewhere"], { CSI_ENDPOINT: rig.path });
    expect(text).toContain('"unix:///elsewhere"');
    expect(code).toBe(2);
  });

  test("goes to the address itself where the environment names a proxy", async () => {
    const proxy = "http://127.0.0.1:1";
    const env = { http_proxy: proxy, https_proxy: proxy, grpc_proxy: proxy };
    expect(await probe([`--endpoint=tcp://${tcp}`], env)).toEqual({ code: 0, text: "" });
    expect(await probe([`--endpoint=${rig.path}`], env)).toEqual({ code: 0, text: "" });
  });
});
