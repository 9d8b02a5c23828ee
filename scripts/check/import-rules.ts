import type { IForbiddenRuleType } from "dependency-cruiser";

/** What one folder of lib/ may import. Patterns are regular expressions on paths below the checkout. */
interface Layer {
  readonly folder: string;
  /** Other folders and files of lib/ that it may import; its own are always allowed. */
  readonly lib: readonly string[];
  /** Files of lib/ of which it may import types only. */
  readonly types?: readonly string[];
  readonly packages: readonly string[];
}

/** Files that every driver may import; index.ts, which lists the drivers, is above them. */
const driverShared =
  "lib/drivers/(driver|module|facts|failure|file-failures|kept|pages|sizes|store|taken-names|tenure|store-driver|template|parameters|copying|volume)\\.ts";

/** The allowed imports. A folder that is missing here may not import from lib/. */
const layers: readonly Layer[] = [
  { folder: "lib/core/", lib: [], packages: [] },
  { folder: "lib/health/", lib: ["lib/core/"], packages: [] },
  { folder: "lib/topology/", lib: ["lib/core/"], packages: [] },
  { folder: "lib/schema/", lib: ["lib/core/"], packages: ["valibot"] },
  { folder: "lib/yaml/", lib: ["lib/core/", "lib/schema/finding\\.ts"], packages: ["yaml"] },
  {
    folder: "lib/config/",
    lib: ["lib/core/", "lib/topology/", "lib/schema/", "lib/yaml/"],
    types: ["lib/drivers/module\\.ts"],
    packages: ["valibot"],
  },
  { folder: "lib/io/", lib: ["lib/core/"], packages: ["ws"] },
  {
    folder: "lib/drivers/[^/]+\\.ts$",
    lib: ["lib/core/", "lib/health/", "lib/io/runner\\.ts", "lib/schema/nearest\\.ts"],
    types: ["lib/io/(?!runner\\.ts)"],
    packages: ["valibot"],
  },
  {
    folder: "lib/drivers/[^/]+/",
    lib: [
      ...["lib/core/", "lib/health/", driverShared, "lib/schema/(parts|owners|storage|connecting)\\.ts"],
      ...["lib/yaml/parse\\.ts", "lib/io/"],
    ],
    packages: ["valibot"],
  },
  {
    folder: "lib/lint/",
    lib: [
      ...["lib/core/", "lib/schema/", "lib/yaml/", "lib/config/", "lib/drivers/", "lib/topology/"],
      "lib/copies/methods\\.ts",
    ],
    types: ["lib/io/script\\.ts"],
    packages: ["yaml"],
  },
  {
    folder: "lib/takeover/",
    lib: ["lib/core/", "lib/schema/", "lib/yaml/", "lib/config/", "lib/lint/"],
    packages: ["yaml"],
  },
  { folder: "lib/node/", lib: ["lib/core/", "lib/health/", "lib/io/"], packages: [] },
  {
    folder: "lib/mux/",
    lib: ["lib/core/", "lib/health/", "lib/topology/", "lib/drivers/(driver|copying|tenure)\\.ts"],
    types: ["lib/copies/(methods|progress|protocol)\\.ts"],
    packages: [],
  },
  {
    folder: "lib/copies/",
    lib: ["core", "health", "io", "mux", "topology", "drivers/(driver|copying|tenure|volume)\\.ts"].map(each =>
      each.endsWith("ts") ? `lib/${each}` : `lib/${each}/`,
    ),
    packages: ["valibot"],
  },
  {
    folder: "lib/csi/",
    lib: ["lib/core/", "lib/health/", "lib/mux/", "lib/node/", "lib/topology/"],
    types: ["lib/drivers/driver\\.ts"],
    packages: ["@grpc/grpc-js", "@bufbuild/protobuf", "@connectrpc/connect"],
  },
  {
    folder: "lib/daemon/",
    lib: ["core", "io", "schema", "config", "topology", "drivers", "mux"].map(folder => `lib/${folder}/`),
    packages: [],
  },
  {
    folder: "lib/observe/",
    lib: ["lib/core/", "lib/health/", "lib/csi/socket-file\\.ts", "lib/copies/protocol\\.ts"],
    types: ["lib/mux/(overview|inventory)\\.ts", "lib/copies/(matrix|progress)\\.ts"],
    packages: ["prom-client"],
  },
];

const any = (patterns: readonly string[]): string => (patterns.length > 0 ? `^(${patterns.join("|")})` : "^$");
const installed = (packages: readonly string[]): string =>
  packages.length > 0 ? `^node_modules/(${packages.join("|")})(/|$)` : "^$";

const error = "error" as const;
const typeOnly = ["type-only", "type-import"] as const;

function layerRules(layer: Layer): IForbiddenRuleType[] {
  const name = layer.folder.replace(/[^a-z]+/g, "-").replace(/-$/, "");
  const types = layer.types ?? [];
  const from = {
    path: `^${layer.folder}`,
    ...(layer.folder === "lib/drivers/[^/]+\\.ts$" ? { pathNot: "^lib/drivers/index\\.ts$" } : {}),
  };
  const rules: IForbiddenRuleType[] = [
    {
      name: `${name}-layer`,
      severity: error,
      comment: `${layer.folder} may import from lib only what scripts/check/import-rules.ts lists`,
      from,
      to: { path: "^lib/", pathNot: any([layer.folder, ...layer.lib, ...types]) },
    },
    {
      name: `${name}-packages`,
      severity: error,
      from,
      to: { path: "node_modules/", pathNot: installed(layer.packages) },
    },
  ];
  if (types.length > 0)
    rules.push({
      name: `${name}-types-only`,
      severity: error,
      from,
      to: { path: any(types), pathNot: any([layer.folder, ...layer.lib]), dependencyTypesNot: [...typeOnly] },
    });
  return rules;
}

/** Rules that are not part of the table. */
const special: readonly IForbiddenRuleType[] = [
  { name: "no-cycle", severity: error, from: { path: "^(lib|cmd|scripts)/" }, to: { circular: true } },
  { name: "resolvable", severity: error, from: {}, to: { couldNotResolve: true, pathNot: "^bun(:|$)" } },
  {
    name: "known-folder",
    severity: error,
    from: { path: "^lib/", pathNot: any(layers.map(layer => layer.folder)) },
    to: {},
  },
  { name: "lib-below-all", severity: error, from: { path: "^lib/" }, to: { path: "^(cmd|scripts|tests)/" } },
  { name: "cmd-below-scripts", severity: error, from: { path: "^cmd/" }, to: { path: "^(scripts|tests)/" } },
  {
    name: "cmd-packages",
    severity: error,
    from: { path: "^cmd/" },
    to: { path: "node_modules/", pathNot: installed(["commander"]) },
  },
  {
    name: "driver-families-apart",
    severity: error,
    comment: "a driver folder must not import another one, except truenas from zfs: move shared code to lib/drivers",
    from: { path: "^lib/drivers/([^/]+)/" },
    to: { path: "^lib/drivers/[^/]+/", pathNot: ["^lib/drivers/$1/", "^lib/drivers/zfs/"] },
  },
  {
    name: "zfs-parts-for-zfs-families",
    severity: error,
    from: { path: "^lib/drivers/[^/]+/", pathNot: "^lib/drivers/(zfs|truenas)/" },
    to: { path: "^lib/drivers/zfs/" },
  },
  {
    name: "driver-schemas-only-use-valibot",
    severity: error,
    from: { path: "^lib/drivers/[^/]+/", pathNot: "/(schema|sections|shares|module)\\.ts$" },
    to: { path: "^node_modules/valibot(/|$)" },
  },
  {
    name: "generated-code-in-csi",
    severity: error,
    from: { path: "^(lib|cmd)/", pathNot: "^lib/csi/" },
    to: { path: "^lib/csi/gen/" },
  },
  {
    name: "processes-in-local-runner",
    severity: error,
    from: { path: "^(lib|cmd)/", pathNot: "^lib/io/process-group\\.ts$" },
    to: { path: "^(node:)?child_process$", dependencyTypesNot: ["type-only"] },
  },
  {
    name: "pure-core",
    severity: error,
    from: { path: "^lib/(core|health|topology|mux)/" },
    to: { path: "^(node:)?(fs|net|http|http2|https|tls|dgram|dns|os|process|worker_threads|cluster)(/|$)" },
  },
  {
    name: "process-in-cmd",
    severity: error,
    comment: "process groups end by process.kill alone",
    from: { path: "^lib/", pathNot: "^lib/io/process-group\\.ts$" },
    to: { path: "^(node:)?process$" },
  },
  { name: "portable", severity: error, from: { path: "^(lib|cmd)/" }, to: { path: "^bun(:|$)" } },
  {
    name: "clients-of-a-cluster-apart",
    severity: error,
    from: { path: "^(lib|cmd)/", pathNot: "^cmd/(cluster/|csimux\\.ts$)" },
    to: { path: "^cmd/cluster/" },
  },
  {
    name: "quick-commands-stay-light",
    severity: error,
    comment: "validate, topology and id start fast because they load neither gRPC nor generated code",
    from: { path: "^cmd/(validate|topology|id)/" },
    to: { path: "^(lib/csi/|node_modules/(@grpc|@bufbuild|@connectrpc)/)", reachable: true },
  },
  {
    name: "serve-is-loaded-late",
    severity: error,
    comment: "the command line loads a command's code only when it runs",
    from: { path: "^cmd/(csimux|probe|host|version|[a-z]+/(command|options)|terminal/[a-z-]+|id/id)\\.ts$" },
    to: {
      path: "^(cmd/(serve/serve|validate/validate|topology/topology|status/status)\\.ts$|lib/csi/)",
      dynamic: false,
      dependencyTypesNot: [...typeOnly],
    },
  },
];

/** All rules, for dependency-cruiser. */
export const importRules: readonly IForbiddenRuleType[] = [...layers.flatMap(layerRules), ...special];
