import { describe, expect, test } from "bun:test";
import { type ServeFlags, serveOptions } from "../../cmd/serve/options.ts";
import { UsageError } from "../../cmd/terminal/terminal.ts";

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

describe("the addresses for metrics and health", () => {
  test.each([
    ["127.0.0.1:9733", { host: "127.0.0.1", port: 9733 }],
    [":9733", { host: "", port: 9733 }],
    ["[::1]:0", { host: "[::1]", port: 0 }],
    ["localhost:80", { host: "localhost", port: 80 }],
  ])("%s is taken", (text, address) => {
    expect(options({ metricsAddress: text }).metricsAddress).toEqual(address);
    expect(options({ healthAddress: text }).healthAddress).toEqual(address);
  });

  test.each(["", "9733", "host", "host:", "host:99999", "http://host:1", "::1:80"])("%j is refused", text => {
    expect(() => options({ metricsAddress: text })).toThrow(UsageError);
  });

  test("are none when they are not given", () => expect(options({}).metricsAddress).toBeUndefined());
});

describe("the status page", () => {
  test("has an address, and a token unless that is a loopback one", () => {
    const address = { host: "127.0.0.1", port: 80 };
    expect(options({ pageAddress: "127.0.0.1:80" }).page).toEqual({ address, tokenFile: undefined });
    expect(options({ pageAddress: "[::1]:80", pageTokenFile: "/t" }).page?.tokenFile).toBe("/t");
    expect(options({}).page).toBeUndefined();
  });

  test.each([
    { pageAddress: ":80" },
    { pageAddress: "0.0.0.0:80" },
    { pageAddress: "[::]:80" },
    { pageAddress: "host:80" },
    { pageAddress: ":80", pageTokenFile: "" },
    { pageTokenFile: "/t" },
  ])("is refused as %j", flags => {
    expect(() => options(flags)).toThrow(UsageError);
  });
});

describe("the registration with kubelet", () => {
  test("is a socket, and the CSI socket under the path of the host", () => {
    expect(options({}).registration).toBeUndefined();
    expect(options({ pluginRegistrationSocket: "/r/a.sock" }).registration).toEqual({
      socket: "/r/a.sock",
      csiSocket: undefined,
    });
  });

  test.each<ServeFlags>([
    { kubeletRegistrationPath: "/a" },
    { pluginRegistrationSocket: "" },
    { pluginRegistrationSocket: "a.sock" },
    { pluginRegistrationSocket: "/a.sock", kubeletRegistrationPath: "b.sock" },
    { pluginRegistrationSocket: "/a.sock", mode: ["controller"] },
  ])("is refused as %j", flags => expect(() => options(flags)).toThrow(UsageError));
});
