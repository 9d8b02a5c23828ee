import { describe, expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { NodeIdConfig } from "../../lib/topology/config.ts";
import { decodeNodeId, encodeNodeId, hostNqn, initiatorName, maxNodeIdBytes } from "../../lib/topology/node-id.ts";
import { fc } from "../fast-check.ts";

const config = (...names: readonly (keyof NodeIdConfig["parts"])[]): NodeIdConfig => ({
  parts: {
    nodeName: names.includes("nodeName"),
    hostname: names.includes("hostname"),
    iqn: names.includes("iqn"),
    nqn: names.includes("nqn"),
  },
  iqnPrefixes: [
    { shortName: "1", prefix: "iqn.2000-01.example:" },
    { shortName: "2", prefix: "iqn.2000-01.example:lab:" },
  ],
  nqnPrefixes: [{ shortName: "u", prefix: "nqn.2014-08.org.nvmexpress:uuid:" }],
  allowHostnameFallback: false,
});

const all = config("nodeName", "hostname", "iqn", "nqn");

describe("node ids", () => {
  test("are decoded to every part, with any characters", () => {
    const text = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
    const prefixed = (...heads: readonly string[]) =>
      fc.tuple(fc.constantFrom("", ...heads), text).map(([head, tail]) => head + tail);
    const identities = fc.record({
      nodeName: text,
      hostname: text,
      iqn: prefixed("iqn.2000-01.example:", "iqn.2000-01.example:lab:", "n=/%2F"),
      nqn: prefixed("nqn.2014-08.org.nvmexpress:uuid:"),
    });
    fc.assert(
      fc.property(identities, identity => {
        let id: string;
        try {
          id = encodeNodeId(identity, all);
        } catch (error) {
          return expect(error).toBeInstanceOf(CsiError);
        }
        expect(Buffer.byteLength(id)).toBeLessThanOrEqual(maxNodeIdBytes);
        expect(decodeNodeId(id, all)).toEqual(identity);
      }),
      { numRuns: 1_000 },
    );
  });

  test("any text is decoded or refused as an invalid argument, never anything else", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."nhivx=/%12Fu") }), text => {
        try {
          expect(Object.keys(decodeNodeId(text, all)).length).toBeLessThanOrEqual(4);
        } catch (error) {
          expect(error instanceof CsiError && error.code).toBe("invalid-argument");
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("use the longest prefix, even if nothing follows it", () => {
    const only = config("iqn");
    expect(encodeNodeId({ iqn: "iqn.2000-01.example:lab:7" }, only)).toBe("i2=7");
    expect(encodeNodeId({ iqn: "iqn.2000-01.example:" }, only)).toBe("i1=");
    expect(decodeNodeId("i1=", only)).toEqual({ iqn: "iqn.2000-01.example:" });
  });

  test("are refused above 256 bytes, with advice", () => {
    const long = encodeNodeId({ nodeName: "n".repeat(254) }, config("nodeName"));
    expect(Buffer.byteLength(long)).toBe(256);
    const longer = () => encodeNodeId({ nodeName: "n".repeat(255) }, config("nodeName"));
    const message = expect.stringMatching(/257 bytes.*nodeId\.iqnPrefix/);
    expect(longer).toThrow(expect.objectContaining({ code: "failed-precondition", message }));
  });

  test("need every configured part", () => {
    expect(decodeNodeId("n=w1/i1=q", all).iqn).toBe("iqn.2000-01.example:q");
    expect(() => encodeNodeId({ nodeName: "w1" }, config("nqn"))).toThrow("nodeId.parts.nqn");
  });
});

describe("names in the host's files", () => {
  test.each([
    ["InitiatorName=iqn.1993-08.org.debian:01:abc\n", "iqn.1993-08.org.debian:01:abc"],
    ["## DO NOT EDIT\r\n\r\n  InitiatorName = iqn.x:1  # mine\r\n", "iqn.x:1"],
    ["#InitiatorName=iqn.old\nInitiatorName=iqn.new\nInitiatorName=iqn.other", "iqn.new"],
    ["InitiatorAlias=x\n", undefined],
    ["InitiatorName=\n", undefined],
    ["", undefined],
  ])("initiatorname.iscsi %j gives %p", (text, want) => {
    expect(initiatorName(text)).toBe(want);
  });

  test.each([
    ["nqn.2014-08.org.nvmexpress:uuid:1\n", "nqn.2014-08.org.nvmexpress:uuid:1"],
    ["nqn.x \r\n", "nqn.x"],
    ["\n", undefined],
  ])("hostnqn %j gives %p", (text, want) => {
    expect(hostNqn(text)).toBe(want);
  });
});
