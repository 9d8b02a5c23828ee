import type { InferOutput } from "valibot";
import { consistent, filled, flag, list, oneOf, optional, record, template, text } from "../schema/parts.ts";
import type { NodeIdConfig, RuleSource, TopologyConfig } from "../topology/config.ts";
import { isLabelValue } from "../topology/labels.ts";

/** Prefix of topology keys if the main file sets none. */
export const defaultPrefix = "org.democratic-csi.topology";

/** A DNS name of at most 63 characters (CSI "Topology": prefix of a key). */
const isPrefix = (value: string): boolean =>
  value.length <= 63 && value.split(".").every(label => /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(label));

const sources = ["nodeName", "hostname", "env", "file", "nodeLabel"] as const;

const ruleEntries = record(
  {
    topologyKey: optional(text({ description: "key without prefix; also spelled `keySuffix`", example: "zone" })),
    keySuffix: optional(text({ description: "another spelling of `topologyKey`" })),
    source: oneOf(sources, { description: "the source of the input", example: "nodeName" }),
    envName: optional(text({ description: "the variable of `source: env`", example: "NODE_ZONE" })),
    file: optional(
      text({ description: "the file of `source: file`, as the node container sees it", example: "/mnt/zone" }),
    ),
    label: optional(text({ description: "the label of `source: nodeLabel`", example: "topology.kubernetes.io/zone" })),
    regex: optional(
      template({ description: "pattern that must match the whole input; also spelled `matchRegexp`", absent: "(.*)" }),
    ),
    matchRegexp: optional(template({ description: "another spelling of `regex`" })),
    template: optional(
      template({
        description: "the value, with `{match:N}` for groups of the pattern; also spelled `resultTemplate`",
        absent: "the whole input",
        example: "zone-{match:1}",
      }),
    ),
    resultTemplate: optional(template({ description: "another spelling of `template`" })),
    default: optional(
      text({ description: "the value if the rule does not apply, so that every node reports the key" }),
    ),
  },
  { description: "one rule; the last one that applies gives a key its value" },
);

const spellings = [
  ["topologyKey", "keySuffix"],
  ["regex", "matchRegexp"],
  ["template", "resultTemplate"],
] as const;

const rule = consistent(ruleEntries, function* (value) {
  for (const [one, other] of spellings) {
    if (value[one] !== undefined && value[other] !== undefined && value[one] !== value[other])
      yield [[other], `"${one}" and "${other}" are two spellings of the same key and differ`];
  }
  const key = value.topologyKey ?? value.keySuffix;
  if (key === undefined) yield [[], 'required key "topologyKey" is missing'];
  else if (!isLabelValue(key)) yield [[value.topologyKey === undefined ? "keySuffix" : "topologyKey"], badSegment];
  if (value.source === "env" && !value.envName) yield [["envName"], 'source "env" needs "envName"'];
  if (value.source === "file" && !value.file?.startsWith("/"))
    yield [["file"], 'source "file" needs "file", an absolute path'];
  if (value.source === "nodeLabel" && !value.label) yield [["label"], 'source "nodeLabel" needs "label"'];
  if (value.default !== undefined && !isLabelValue(value.default)) yield [["default"], badSegment];
});

const badSegment = 'must have 1 to 63 letters, digits, ".", "_" or "-", and start and end with a letter or digit';

const rules = list(rule, { description: "rules for type zone" });

/** `proxy.nodeTopology` */
export const topologySchema = consistent(
  record(
    {
      type: optional(
        oneOf(["cluster", "node", "zone", "custom"], {
          description:
            "what nodes report: the same for all (cluster), one topology per node (node), or the results of rules (zone, or its synonym custom)",
        }),
        "cluster",
      ),
      prefix: optional(text({ description: "prefix of all topology keys; empty means the default" }), defaultPrefix),
      fromRegexp: optional(rules),
      customRules: optional(rules),
    },
    { description: "the topology that nodes report to Kubernetes" },
  ),
  function* (value) {
    if (value.prefix !== "" && !isPrefix(value.prefix))
      yield [["prefix"], "must be a DNS name of at most 63 characters, without a slash"];
    if (value.fromRegexp && value.customRules)
      yield [["customRules"], '"fromRegexp" and "customRules" are two spellings of the same list'];
    const byRules = value.type === "zone" || value.type === "custom";
    const all = value.fromRegexp ?? value.customRules ?? [];
    if (byRules && all.length === 0) yield [["type"], `type "${value.type}" needs a list of rules under "fromRegexp"`];
    yield* differingOnlyInCase(value.fromRegexp ? "fromRegexp" : "customRules", all);
  },
);

type RuleText = InferOutput<typeof rule>;

const keyOf = (value: RuleText): string => value.topologyKey ?? value.keySuffix ?? "";

function* differingOnlyInCase(
  where: string,
  all: readonly RuleText[],
): Generator<readonly [readonly (string | number)[], string]> {
  const seen = new Map<string, string>();
  for (const [index, each] of all.entries()) {
    const key = keyOf(each);
    const before = seen.get(key.toLowerCase());
    if (before !== undefined && before !== key)
      yield [[where, index], `keys "${before}" and "${key}" differ only in case`];
    seen.set(key.toLowerCase(), key);
  }
}

const sourceOf = (value: RuleText): RuleSource => {
  const { source } = value;
  if (source === "nodeName" || source === "hostname") return { kind: source };
  const names = { env: value.envName, file: value.file, nodeLabel: value.label };
  return { kind: source, name: names[source] ?? "" };
};

/** Converts the parsed block to a single spelling. */
export function nodeTopology(value: InferOutput<typeof topologySchema>): TopologyConfig {
  const prefix = value.prefix === "" ? defaultPrefix : value.prefix;
  if (value.type === "cluster" || value.type === "node") return { kind: value.type, prefix };
  const rules = (value.fromRegexp ?? value.customRules ?? []).map(each => ({
    key: keyOf(each),
    source: sourceOf(each),
    pattern: each.regex ?? each.matchRegexp ?? "(.*)",
    template: each.template ?? each.resultTemplate ?? "{match:0}",
    fallback: each.default,
  }));
  return { kind: "rules", prefix, rules };
}

const shortName = text({ description: "short form of the prefix: lower-case letters and digits", example: "1" });

const prefixes = (of: string) =>
  optional(
    list(
      consistent(
        record({ shortName, prefix: filled({ description: `start of an ${of} that the short form replaces` }) }),
        function* (value) {
          if (!/^[0-9a-z]+$/.test(value.shortName))
            yield [["shortName"], "must consist of lower-case letters and digits"];
        },
      ),
      { description: `starts of ${of}s that are shortened in node ids` },
    ),
  );

const part = (description: string, fallback: boolean) => optional(flag({ description }), fallback);

const parts = record(
  {
    nodeName: part("the node's name", true),
    hostname: part("the operating system's host name", false),
    iqn: part("the iSCSI initiator name", false),
    nqn: part("the NVMe host NQN", false),
  },
  { description: "the parts of a node id" },
);

/** `proxy.nodeId` */
export const nodeIdSchema = consistent(
  record(
    {
      parts: optional(parts),
      iqnPrefix: prefixes("IQN"),
      nqnPrefix: prefixes("NQN"),
      allowHostnameFallback: optional(
        flag({ description: "use the host name if CSI_NODE_ID is not set; correct only if it equals the node name" }),
        false,
      ),
    },
    { description: "the id with which nodes register" },
  ),
  function* (value) {
    if (value.parts && !Object.values(value.parts).includes(true)) yield [["parts"], "at least one part must be true"];
    for (const where of ["iqnPrefix", "nqnPrefix"] as const) {
      const names = (value[where] ?? []).map(each => each.shortName);
      const twice = names.findIndex((name, index) => names.indexOf(name) < index);
      if (twice >= 0) yield [[where, twice, "shortName"], "another entry has the same short name"];
    }
  },
);

/** Converts the parsed block, with defaults filled in. */
export const nodeIdSettings = (value: InferOutput<typeof nodeIdSchema> | undefined): NodeIdConfig => ({
  parts: value?.parts ?? { nodeName: true, hostname: false, iqn: false, nqn: false },
  iqnPrefixes: value?.iqnPrefix ?? [],
  nqnPrefixes: value?.nqnPrefix ?? [],
  allowHostnameFallback: value?.allowHostnameFallback ?? false,
});
