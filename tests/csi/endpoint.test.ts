import { describe, expect, test } from "bun:test";
import { type Endpoint, parseEndpoint } from "../../lib/csi/endpoint.ts";

const unix = (path: string): Endpoint => ({ kind: "unix", path });
const tcp = (host: string, port: number): Endpoint => ({ kind: "tcp", host, port });

describe("an endpoint", () => {
  const good: readonly [string, Endpoint][] = [
    ["unix:///csi/csi.sock", unix("/csi/csi.sock")],
    ["unix:/csi/csi.sock", unix("/csi/csi.sock")],
    ["unix:csi.sock", unix("csi.sock")],
    ["/csi/csi.sock", unix("/csi/csi.sock")],
    ["./csi.sock", unix("./csi.sock")],
    ["csi.sock", unix("csi.sock")],
    ["/csi/with:1", unix("/csi/with:1")],
    ["/csi/%41", unix("/csi/%41")],
    ["tcp://127.0.0.1:9000", tcp("127.0.0.1", 9000)],
    ["tcp://[::1]:9000", tcp("[::1]", 9000)],
    ["0.0.0.0:0", tcp("0.0.0.0", 0)],
    ["localhost:65535", tcp("localhost", 65_535)],
  ];
  for (const [text, endpoint] of good) {
    test(`${text} is understood`, () => expect(parseEndpoint(text)).toEqual(endpoint));
  }

  const bad: readonly [string, string][] = [
    ["", "does not name a socket file"],
    ["unix:", "does not name a socket file"],
    ["unix:///", "does not name a socket file"],
    ["unix:///csi/", "does not name a socket file"],
    ["unix://csi/csi.sock", "has no absolute path"],
    ["/csi/a\0b", "null character"],
    ["http://host:1", "unknown scheme http"],
    ["tcp://host", "is not host:port"],
    ["tcp://:9000", "is not host:port"],
    ["tcp://host:", "is not host:port"],
    ["tcp://host:1/path", "is not host:port"],
    ["host:port", "is not host:port"],
    ["::1:9000", "is not host:port"],
    ["host:70000", "port above 65535"],
  ];
  for (const [text, why] of bad) {
    test(`${JSON.stringify(text)} is refused and the message shows what to write`, () => {
      expect(() => parseEndpoint(text)).toThrow(why);
      expect(() => parseEndpoint(text)).toThrow("tcp://host:port");
    });
  }
});
