import { afterEach, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { Metadata, status } from "@grpc/grpc-js";
import { CsiError } from "../../lib/core/errors.ts";
import { Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { flag, frameType, makeFrame, preface } from "../../lib/csi/http2/http2-frames.ts";
import { acknowledge, answered, block, body, named, raw, settings } from "./raw.ts";
import { call, gate, metadataOf, type Rig, startRig, until } from "./rig.ts";

const { probe, getPluginInfo } = Identity.method;

let rig: Rig | undefined;
afterEach(async () => {
  await rig?.end();
  rig = undefined;
});

/** Serves Probe with one function. */
async function serve(run: (context: HandlerContext) => Promise<object> | object): Promise<Rig> {
  rig = await startRig({ probe: (_request, context) => run(context) });
  return rig;
}

/** Resolves with the reason when the signal aborts. */
const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise(resolve => signal.addEventListener("abort", () => resolve(signal.reason)));

describe("a call", () => {
  test("is answered, and not in flight afterwards", async () => {
    const { client, server } = await serve(() => ({ ready: true }));
    expect((await call(client(), probe, {})).answer?.ready).toBe(true);
    expect(server.inFlight).toBe(0);
  });

  test("of a handler that answers without a promise is answered", async () => {
    rig = await startRig({ getPluginInfo: () => ({ name: "csi.example.org", manifest: { a: "b" } }) });
    const { answer } = await call(rig.client(), getPluginInfo, {});
    expect([answer?.name, answer?.manifest]).toEqual(["csi.example.org", { a: "b" }]);
  });

  test("of a method without handler gets UNIMPLEMENTED with its name", async () => {
    const { client } = await serve(() => ({}));
    const { code, details } = await call(client(), getPluginInfo, {});
    expect([code, details]).toEqual([status.UNIMPLEMENTED, "csi.v1.Identity.GetPluginInfo is not implemented"]);
  });

  test("handler is called on its service object", async () => {
    const service = {
      name: "csi.example.org",
      getPluginInfo() {
        return { name: this.name };
      },
    };
    rig = await startRig(service);
    expect((await call(rig.client(), getPluginInfo, {})).answer?.name).toBe("csi.example.org");
  });

  test("sees request headers", async () => {
    const { client } = await serve(context => ({ ready: metadataOf(context).get("x-ask")[0] === "question" }));
    const metadata = new Metadata();
    metadata.set("x-ask", "question");
    expect((await call(client(), probe, {}, { metadata })).answer?.ready).toBe(true);
  });
});

describe("the signal of a call", () => {
  test("aborts at the deadline of a silent client", async () => {
    let reason: unknown;
    const { server, path } = await serve(async ({ signal }) => {
      reason = await aborted(signal);
      return {};
    });
    // Only the server's own timer ends the call: a client of grpc-js would cancel at about the same moment.
    const { socket, types } = await raw(path);
    const asked = makeFrame(
      frameType.headers,
      flag.endHeaders,
      1,
      Buffer.concat([block("localhost"), named("grpc-timeout", "500m")]),
    );
    socket.write(Buffer.concat([preface, settings, acknowledge, asked, body]));
    await until(() => answered(types()), "the answer");
    await until(() => server.inFlight === 0, "the handler to end");
    expect(reason).toMatchObject({ name: "CsiError", code: "deadline-exceeded" });
    socket.destroy();
  });

  test("aborts when the client cancels", async () => {
    let reason: unknown;
    const entered = gate();
    const { client, server } = await serve(async ({ signal }) => {
      entered.open();
      reason = await aborted(signal);
      return {};
    });
    const outcome = call(client(), probe, {}, { started: started => entered.opened.then(() => started.cancel()) });
    expect((await outcome).code).toBe(status.CANCELLED);
    await until(() => server.inFlight === 0, "the handler to end");
    expect(reason).toMatchObject({ name: "CsiError", code: "aborted" });
  });

  test("is already aborted when it is first read after the client has cancelled", async () => {
    let seen: AbortSignal | undefined;
    let calls = 0;
    const entered = gate();
    const cancelled = gate();
    const { client, server } = await serve(async context => {
      if (calls++ > 0) return {};
      entered.open();
      await cancelled.opened;
      seen = context.signal;
      return {};
    });
    const ours = client();
    await call(ours, probe, {}, { started: started => entered.opened.then(() => started.cancel()) });
    // Answered after the cancellation has reached the server, because both travel on one connection.
    expect((await call(ours, probe, {})).code).toBe(0);
    cancelled.open();
    await until(() => server.inFlight === 0, "the handler to end");
    expect(seen?.reason).toMatchObject({ name: "CsiError", code: "aborted" });
  });

  test("aborts when the process of the client is killed", async () => {
    let reason: unknown;
    const entered = gate();
    const { path, server } = await serve(async ({ signal }) => {
      entered.open();
      reason = await aborted(signal);
      return {};
    });
    const child = spawn(process.execPath, [join(import.meta.dirname, "lone-client.ts"), path], { stdio: "ignore" });
    try {
      await entered.opened;
      expect(server.inFlight).toBe(1);
      child.kill("SIGKILL");
      await until(() => server.inFlight === 0, "the handler to end");
      expect(reason).toMatchObject({ name: "CsiError", code: "aborted" });
    } finally {
      child.kill("SIGKILL");
    }
  });

  test("does not abort when the call ends normally", async () => {
    let kept: AbortSignal | undefined;
    const { client } = await serve(({ signal }) => {
      kept = signal;
      return {};
    });
    const ours = client();
    await call(ours, probe, {});
    await call(ours, probe, {});
    expect(kept?.aborted).toBe(false);
  });
});

describe("a failing handler", () => {
  const cases: readonly [what: string, error: unknown, code: number, details: string][] = [
    ["CsiError", new CsiError("not-found", "volume x is gone"), status.NOT_FOUND, "volume x is gone"],
    ["ConnectError", new ConnectError("no space", Code.ResourceExhausted), status.RESOURCE_EXHAUSTED, "no space"],
    ["plain Error", new Error("/etc/secret at line 3"), status.INTERNAL, "internal error"],
    ["string", "a secret", status.INTERNAL, "internal error"],
    ["undefined", undefined, status.INTERNAL, "internal error"],
    [
      "accents, CJK, emoji, percent, newline",
      new CsiError("aborted", "é 漢 🚀 100% \n"),
      status.ABORTED,
      "é 漢 🚀 100% \n",
    ],
    ["lone surrogate", new CsiError("aborted", "a\ud800b"), status.ABORTED, "a\ufffdb"],
  ];

  for (const [what, error, code, details] of cases) {
    test(`that throws (${what}) gives a status and the server lives on`, async () => {
      let calls = 0;
      const { client } = await serve(async () => {
        if (calls++ === 0) throw error;
        return {};
      });
      const ours = client();
      expect(await call(ours, probe, {})).toEqual({ answer: undefined, code, details });
      expect((await call(ours, probe, {})).code).toBe(0);
    });
  }

  test("that throws before its first await gives a status", async () => {
    const { client } = await serve(() => {
      throw new CsiError("out-of-range", "too large");
    });
    expect((await call(client(), probe, {})).code).toBe(status.OUT_OF_RANGE);
  });

  for (const [what, message] of [
    ["ASCII", "x".repeat(70_000)],
    ["CJK", "漢".repeat(70_000)],
  ] as const) {
    test(`with a message of 70,000 ${what} characters keeps its code and the head of the message`, async () => {
      const { client } = await serve(() => {
        throw new CsiError("already-exists", message);
      });
      const { code, details } = await call(client(), probe, {});
      expect(code).toBe(status.ALREADY_EXISTS);
      expect(encodeURI(details).length).toBeWithin(4000, 4097);
      expect(message.startsWith(details.slice(0, -3))).toBe(true);
    });
  }

  test("whose answer cannot be written gives INTERNAL", async () => {
    const unreadable = () => ({
      manifest: new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error("a secret");
          },
        },
      ),
    });
    rig = await startRig({ getPluginInfo: unreadable, probe: () => ({}) });
    const ours = rig.client();
    const { code, details } = await call(ours, getPluginInfo, {});
    expect(code).toBe(status.INTERNAL);
    expect(details).not.toContain("secret");
    expect((await call(ours, probe, {})).code).toBe(0);
  });
});
