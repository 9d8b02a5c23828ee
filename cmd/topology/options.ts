import { UsageError } from "../terminal/usage-error.ts";

/** What the command line of `topology` may hold, under commander's names. */
export interface TopologyFlags {
  readonly config?: string;
  readonly nodeName?: string;
  readonly hostname?: string;
  readonly env?: readonly string[];
  readonly file?: readonly string[];
  readonly label?: readonly string[];
  readonly output: string;
  readonly nodes?: string;
  readonly connections?: string;
  readonly connection?: string;
  readonly storageClass?: string;
  readonly changesFrom?: string;
  readonly kubeconfig?: string;
  readonly details?: boolean;
}

/** The form of what is printed. */
export type Output = "text" | "json" | "yaml";

/** Facts of a node that the user gives; the rest is looked up where the command runs. */
export interface GivenFacts {
  readonly nodeName: string | undefined;
  readonly hostname: string | undefined;
  readonly env: ReadonlyMap<string, string>;
  readonly files: ReadonlyMap<string, string>;
  readonly labels: ReadonlyMap<string, string>;
}

/** The command line of `topology`, checked. */
export interface TopologyOptions {
  /** Path of the main file. */
  readonly config: string;
  readonly given: GivenFacts;
  readonly output: Output;
  /** A file with a list of nodes, or "-". */
  readonly nodes: string | undefined;
  /** Folder of the connection files, instead of the one that the main file names. */
  readonly connections: string | undefined;
  readonly connection: string | undefined;
  /** A file with StorageClasses, or "-". */
  readonly storageClass: string | undefined;
  /** The main file as it was. */
  readonly changesFrom: string | undefined;
  /** kubectl's configuration of a cluster that is asked for its nodes and classes. */
  readonly kubeconfig: string | undefined;
  /** Whether everything that was found out is printed, not only what follows from it. */
  readonly details: boolean;
}

const outputs: readonly string[] = ["text", "json", "yaml"];
const isOutput = (text: string): text is Output => outputs.includes(text);

/** Checks the flags. Throws UsageError. */
export function topologyOptions(flags: TopologyFlags): TopologyOptions {
  const { config, output, nodes, connection, storageClass, changesFrom } = flags;
  if (!config) throw new UsageError("--config is missing: the path of the main file (proxy.yaml)");
  if (!isOutput(output)) throw new UsageError(`--output is text, json or yaml, not "${output}"`);
  if (connection !== undefined && storageClass !== undefined)
    throw new UsageError("--connection and --storage-class exclude each other: the class names its connection");
  if (changesFrom !== undefined && (connection ?? storageClass) !== undefined)
    throw new UsageError("--changes-from cannot be combined with --connection or --storage-class");
  if (nodes === "-" && storageClass === "-") throw new UsageError("only one of --nodes and --storage-class can be -");
  if (nodes !== undefined && flags.kubeconfig !== undefined)
    throw new UsageError("--nodes and --kubeconfig exclude each other: both say which nodes there are");
  const env = pairs("--env", flags.env);
  return {
    config,
    given: {
      nodeName: flags.nodeName ?? env.get("CSI_NODE_ID"),
      hostname: flags.hostname,
      env,
      files: pairs("--file", flags.file),
      labels: pairs("--label", flags.label),
    },
    output,
    nodes,
    connections: flags.connections,
    connection,
    storageClass,
    changesFrom,
    kubeconfig: flags.kubeconfig,
    details: flags.details ?? false,
  };
}

/** `name=value`, split at the first "=". */
function pairs(flag: string, words: readonly string[] = []): ReadonlyMap<string, string> {
  return new Map(
    words.map(word => {
      const equals = word.indexOf("=");
      if (equals < 1) throw new UsageError(`${flag} takes name=value, not "${word}"`);
      return [word.slice(0, equals), word.slice(equals + 1)];
    }),
  );
}
