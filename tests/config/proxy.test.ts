import { describe, expect, test } from "bun:test";
import { addressesFor } from "../../lib/config/node.ts";
import { readSingle } from "../../lib/config/single.ts";
import type { Segments } from "../../lib/core/access.ts";
import { modules } from "../../lib/drivers/index.ts";
import { reasons } from "../../lib/schema/finding.ts";
import { gist, main, outside } from "./reading.ts";

const file = (inside: string) => `driver: proxy\nproxy:\n  configFolder: /connections/\n${inside}`;

describe("the main file", () => {
  test("needs only a folder; all other keys have defaults", () => {
    const { config, diagnostics } = main(file(""));
    expect(diagnostics).toEqual([]);
    expect(config).toMatchObject({
      configFolder: "/connections",
      cacheTimeout: { kind: "idle", ms: 3_600_000 },
      nodeTopology: undefined,
      listing: "complete",
      topologyMatch: "lenient",
      reportTopology: "all",
      honourPreferred: "off",
      nodeId: { parts: { nodeName: true, hostname: false } },
    });
  });

  test("configures how nodes use disks", () => {
    const check =
      "checkFilesystem: { ext4: { enabled: true, customOptions: [-p], customFilesystemOptions: [-f] }, xfs: {} }";
    const block = `node:\n  mount: { mount_flags: "noatime, discard,", ${check} }\n  format: { xfs: { customOptions: [-K] } }\n`;
    const addresses = [{ requirements: {}, addresses: {} }];
    expect(main(file("")).config?.node).toEqual({ addresses, mountFlags: [], check: {}, format: {} });
    expect(main(`${file("")}${block}`).config?.node).toEqual({
      addresses,
      mountFlags: ["noatime", "discard"],
      check: { ext4: { enabled: true, options: ["-p", "-f"] }, xfs: { enabled: false, options: [] } },
      format: { xfs: ["-K"] },
    });
  });

  const byTopology = `node:
  addresses: { NAS.example: 10.0.0.9, "[fd00::5]": fd00::9 }
  addressesByTopology:
    - { requirements: { rack: a, row: one }, addresses: { nas.example: 10.1.1.5 } }
    - { requirements: { rack: a }, addresses: { nas.example: 10.1.0.5, other: 10.1.0.6 } }
    - { requirements: { rack: b }, addresses: { nas.example: 10.2.0.5 } }
`;

  test.each<[Segments, Segments]>([
    [{}, { "nas.example": "10.0.0.9", "fd00::5": "fd00::9" }],
    [
      { rack: "c", row: "one" },
      { "nas.example": "10.0.0.9", "fd00::5": "fd00::9" },
    ],
    [{ rack: "b" }, { "nas.example": "10.2.0.5", "fd00::5": "fd00::9" }],
    [
      { rack: "a", row: "two" },
      { "nas.example": "10.1.0.5", other: "10.1.0.6", "fd00::5": "fd00::9" },
    ],
    [
      { rack: "a", row: "one" },
      { "nas.example": "10.1.1.5", other: "10.1.0.6", "fd00::5": "fd00::9" },
    ],
  ])("a node that reports %j reaches storages at %j", (node, expected) => {
    const { config, diagnostics } = main(`${file("")}${byTopology}`);
    expect(diagnostics).toEqual([]);
    expect(addressesFor(config?.node.addresses ?? [], node)).toEqual(expected);
  });

  test.each([
    ["{}", "must name at least one topology key"],
    ["{ t.example/rack: a }", 'write the key without prefix: "rack"'],
    ["{ rack: [a, b] }", "must be a single value"],
    ["{ -rack: a }", "must be a topology key"],
  ])("addresses for nodes with %s are refused", (requirements, why) => {
    const { config, diagnostics } = main(
      `${file("")}node:\n  addressesByTopology: [{ requirements: ${requirements}, addresses: { a: b } }]\n`,
    );
    expect(config).toBeUndefined();
    expect(reasons(diagnostics)).toContain(why);
  });

  test.each([
    ["", { kind: "idle", ms: 3_600_000 }],
    ["60", { kind: "idle", ms: 3_600_000 }],
    ["0", { kind: "none" }],
    ["-1", { kind: "forever" }],
    ["0.5", { kind: "idle", ms: 30_000 }],
  ])("cacheTimeoutMinutes %p means %p, as documented", (value, expected) => {
    expect(main(file(`  cacheTimeoutMinutes: ${value}\n`)).config?.cacheTimeout).toEqual(expected as never);
  });

  test.each(["-5", "-0.5", "soon", ".nan", "[]"])("cacheTimeoutMinutes %s is refused", value => {
    expect(main(file(`  cacheTimeoutMinutes: ${value}\n`)).config).toBeUndefined();
  });

  test("both documented spellings of topology rules have the same meaning", () => {
    const expected = {
      kind: "rules",
      prefix: "t.example",
      rules: [
        { key: "zone", source: { kind: "nodeName" }, pattern: "z(.*)", template: "{match:1}", fallback: undefined },
      ],
    };
    const code = `  nodeTopology: { type: zone, prefix: t.example, fromRegexp: [{ topologyKey: zone, source: nodeName, regex: "z(.*)", template: "{match:1}" }] }\n`;
    const example = `  nodeTopology: { type: custom, prefix: t.example, customRules: [{ keySuffix: zone, source: nodeName, matchRegexp: "z(.*)", resultTemplate: "{match:1}" }] }\n`;
    expect(main(file(code)).config?.nodeTopology).toEqual(expected as never);
    expect(main(file(example)).config?.nodeTopology).toEqual(expected as never);
  });

  test("placeholders and patterns are never expanded", () => {
    const rule = `  nodeTopology: { type: zone, fromRegexp: [{ topologyKey: zone, source: env, envName: Z, template: "\${match:0}\${env:Z}", regex: "\${env:Z}" }] }\n`;
    const { config, diagnostics } = main(file(rule));
    expect(diagnostics).toEqual([]);
    expect(config?.nodeTopology).toMatchObject({ rules: [{ template: "${match:0}${env:Z}", pattern: "${env:Z}" }] });
  });

  test.each([
    ["nodeTopology: { type: rack }", "invalid-value@4:25 proxy.nodeTopology.type"],
    ["nodeTopology: { type: zone }", "invalid-value@4:25 proxy.nodeTopology.type"],
    ["nodeTopology: { prefix: a/b }", "invalid-value@4:27 proxy.nodeTopology.prefix"],
    [
      "nodeTopology: { type: zone, fromRegexp: [{ topologyKey: a, keySuffix: b, source: nodeName }] }",
      "invalid-value@4:73 proxy.nodeTopology.fromRegexp[0].keySuffix",
    ],
    [
      "nodeTopology: { type: zone, fromRegexp: [{ topologyKey: a, source: label }] }",
      "invalid-value@4:70 proxy.nodeTopology.fromRegexp[0].source",
    ],
    [
      "nodeTopology: { type: zone, fromRegexp: [{ topologyKey: a, source: env }] }",
      "invalid-value@4:44 proxy.nodeTopology.fromRegexp[0].envName",
    ],
    [
      "nodeTopology: { type: zone, fromRegexp: [{ topologyKey: A, source: nodeName }, { topologyKey: a, source: nodeName }] }",
      "invalid-value@4:82 proxy.nodeTopology.fromRegexp[1]",
    ],
    ["nodeId: { parts: { nodeName: false } }", "invalid-value@4:13 proxy.nodeId.parts"],
    ["nodeId: { iqnPrefix: [{ shortName: A, prefix: x }] }", "invalid-value@4:38 proxy.nodeId.iqnPrefix[0].shortName"],
    ["groups: { g: {} }", "invalid-value@4:13 proxy.groups.g"],
    ["groups: { g: { members: [a], selector: b } }", "invalid-value@4:42 proxy.groups.g.selector"],
    ["groups: { g: { selector: 'a ~ b' } }", "invalid-value@4:28 proxy.groups.g.selector"],
    ["groups: { 'a/b': { members: [a] } }", 'invalid-value@4:13 proxy.groups."a/b"'],
    ["listing: some", "invalid-value@4:12 proxy.listing"],
  ])("%s is refused with its place", (inside, expected) => {
    const { config, diagnostics } = main(file(`  ${inside}\n`));
    expect(config).toBeUndefined();
    expect(gist(diagnostics)).toEqual([expected]);
  });

  test("groups are read with members or a selector", () => {
    const { config } = main(
      file("  groups:\n    a: { members: [x, y], policy: spread }\n    b: { selector: 'tier in (fast, slow)' }\n"),
    );
    expect(config?.groups.get("a")).toEqual({ from: { kind: "members", members: ["x", "y"] }, policy: "spread" });
    expect(config?.groups.get("b")).toMatchObject({ from: { kind: "selector" }, policy: "ordered" });
  });

  test("the configuration of a single driver is recognised, with advice", () => {
    const { config, singleDriver, diagnostics } = main("driver: freenas-nfs\n");
    expect(config).toBeUndefined();
    expect(singleDriver).toBe("freenas-nfs");
    expect(gist(diagnostics)).toEqual(["not-proxy@1:9 driver"]);
    const text = "driver: freenas-nfs\n";
    expect(readSingle(main(text), modules, outside()).config).toMatchObject({
      single: "main",
      legacyConnection: "main",
    });
    const wrong = (more: string) => readSingle(main(more), modules, outside()).diagnostics[0];
    expect(wrong("driver: freenas-nsf\n")?.fix).toBe('did you mean "freenas-nfs"?');
    expect(wrong("driver: nfs-client\nproxy: { configFolder: /c }\n")?.message).toContain('must have "driver: proxy"');
  });

  test("the node block is checked, numbers are taken as text with a warning", () => {
    const { config, diagnostics } = main(
      file("node:\n  mount: { mount_flags: 'a, b' }\n  format: { ext4: { customOptions: [-m, 0] } }\n"),
    );
    expect(config).toBeDefined();
    expect(gist(diagnostics)).toEqual(["retyped-value@6:41 node.format.ext4.customOptions[1]"]);
  });
});
