import { describe, expect, test } from "bun:test";
import { type ServeFlags, serveOptions } from "../../cmd/serve/options.ts";
import { UsageError } from "../../cmd/terminal/usage-error.ts";

type Env = Readonly<Record<string, string>>;

const options = (flags: ServeFlags, env: Env = {}) => serveOptions({ config: "/proxy.yaml", ...flags }, env);

describe("the driver name", () => {
  test.each(["csimux.storage", "a", "org.democratic-csi.nfs2", "10g-storage", `a${"b".repeat(62)}`])(
    "%s is taken",
    name => expect(options({ name }).name).toBe(name),
  );

  test.each(["", "-a", "a.", "a_b", "a/b", "a b", `a${"b".repeat(63)}`])("%j is refused", name => {
    expect(() => options({ csiName: name })).toThrow(UsageError);
  });
});

describe("the endpoints", () => {
  const table: readonly (readonly [string, ServeFlags, Env, readonly string[]])[] = [
    ["nothing given is the usual socket", {}, {}, ["unix:///csi/csi.sock"]],
    ["CSI_ENDPOINT counts without flags", {}, { CSI_ENDPOINT: "unix:///a" }, ["unix:///a"]],
    ["a flag wins over CSI_ENDPOINT", { endpoint: ["/b"] }, { CSI_ENDPOINT: "unix:///a" }, ["/b"]],
    ["a flag wins over its old variable", { serverSocket: "/b" }, { DEMOCRATIC_CSI_SERVER_SOCKET: "/a" }, ["/b"]],
    ["an old variable wins over CSI_ENDPOINT", {}, { DEMOCRATIC_CSI_SERVER_SOCKET: "/a", CSI_ENDPOINT: "/b" }, ["/a"]],
    [
      "all that are given count",
      { endpoint: ["/a", "/b"], serverSocket: "/c", serverAddress: "127.0.0.1", serverPort: "1" },
      {},
      ["/a", "/b", "/c", "tcp://127.0.0.1:1"],
    ],
    ["a bare IPv6 address gets brackets", { serverAddress: "::1", serverPort: "1" }, {}, ["tcp://[::1]:1"]],
    ["one in brackets keeps them", { serverAddress: "[::1]", serverPort: "1" }, {}, ["tcp://[::1]:1"]],
  ];
  test.each(table)("%s", (_, flags, env, endpoints) => expect(options(flags, env).endpoints).toEqual(endpoints));
});

describe("the state folder", () => {
  test("is refused when it is empty, as from a variable that is not set", () => {
    expect(() => options({ stateDir: "" })).toThrow("--state-dir is empty");
  });

  test("is left to csimux without the flag", () => expect(options({}).stateDir).toBeUndefined());
});
