import { describe, expect, test } from "bun:test";
import { addressesIn, foreignAddress } from "../../lib/core/addresses.ts";

const none = () => false;
const said = (theirs: Record<string, string>, own: readonly string[], isMapped: (host: string) => boolean = none) =>
  foreignAddress("nas", theirs, own, isMapped);

describe("the address of a volume is one of its connection's", () => {
  test.each<[string, Record<string, string>, readonly string[]]>([
    ["equal", { server: "nas.example" }, ["nas.example"]],
    ["in another case, with a final dot", { server: "NAS.example." }, ["nas.example"]],
    ["one of several portals", { portals: "10.0.0.5:3260,10.0.1.5:3260" }, ["10.0.1.5", "10.0.2.5:3261"]],
    ["a portal without a port", { portal: "10.0.0.5" }, ["10.0.0.5:3260"]],
    ["another spelling of an IPv6 address", { portal: "[fd00:0:0::5]:3260" }, ["FD00::5"]],
    ["with the zone of a link", { server: "fe80::1%eth0" }, ["[fe80::1]"]],
    ["a transport with options", { transports: "tcp://10.0.0.5:4420?nr-io-queues=2" }, ["tcp://10.0.0.5"]],
  ])("%s", (_, context, own) => expect(said(context, own)).toBeUndefined());

  test("nothing is said where one of them has no address, or has network identifiers of Lustre", () => {
    expect(said({ path: "/a" }, ["nas"])).toBeUndefined();
    expect(said({ server: "nas" }, [])).toBeUndefined();
    expect(said({ server: "10.0.0.1@tcp:10.0.0.2@tcp" }, ["10.0.0.9@tcp"])).toBeUndefined();
  });
});

test("a foreign address is named with those of the connection, unless it is known as moved", () => {
  const context = { server: "10.0.0.5", share: "/a" };
  expect(said(context, ["nas.example", "10.0.0.9:2049"])).toBe(
    'the volume\'s address 10.0.0.5 is none of connection "nas" (nas.example, 10.0.0.9)',
  );
  expect(said(context, ["10.0.0.50"])).toContain("10.0.0.5 is none");
  expect(said(context, ["10.0.0.9"], host => host === "10.0.0.5")).toBeUndefined();
  expect(said(context, ["10.0.0.9"], host => host === "10.0.0.6")).toBeDefined();
});

test("the addresses of a context are its server, portals and transports", () => {
  const context = { server: "a", portal: "b", portals: "c,d", transport: "e", transports: "f", share: "/g", iqn: "h" };
  expect(addressesIn(context)).toEqual(["a", "b", "c,d", "e", "f"]);
});
