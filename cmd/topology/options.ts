import { UsageError } from "../terminal/terminal.ts";

/** The form of the output. */
export type OutputFormat = "text" | "json" | "yaml";

/** Facts of a node given by flags; the others come from the machine that the command runs on. */
export interface GivenFacts {
  readonly nodeName: string | undefined;
  readonly hostname: string | undefined;
  readonly env: ReadonlyMap<string, string>;
  readonly files: ReadonlyMap<string, string>;
  readonly labels: ReadonlyMap<string, string>;
}

/** The flags under commander's names. */
export interface TopologyFlags {
  /** Path of the main file. */
  readonly config?: string;
  readonly nodeName?: string;
  readonly hostname?: string;
  readonly env?: readonly string[];
  readonly file?: readonly string[];
  readonly label?: readonly string[];
  readonly output: string;
  /** A file with nodes and possibly StorageClasses, or "-". */
  readonly nodes?: string;
  /** Folder of the connection files; absent: the one named in the main file. */
  readonly connections?: string;
  /** A connection or group. */
  readonly connection?: string;
  /** A file with StorageClasses, or "-". */
  readonly storageClass?: string;
  /** Whether to print every node and the map. */
  readonly details?: boolean;
}

/** The command line of `topology`, checked. */
export interface TopologyOptions extends Omit<TopologyFlags, "nodeName" | "hostname" | "env" | "file" | "label"> {
  readonly config: string;
  readonly given: GivenFacts;
  readonly output: OutputFormat;
}

const outputs: readonly string[] = ["text", "json", "yaml"];
const isOutput = (text: string): text is OutputFormat => outputs.includes(text);

/** Checks the flags. Throws UsageError. */
export function topologyOptions({
  env: variables,
  file,
  label,
  nodeName,
  hostname,
  ...flags
}: TopologyFlags): TopologyOptions {
  const { config, output, nodes, connection, storageClass } = flags;
  if (!config) throw new UsageError("--config is missing: the path of the main file (proxy.yaml)");
  if (!isOutput(output)) throw new UsageError(`--output is text, json or yaml, not "${output}"`);
  if (connection !== undefined && storageClass !== undefined)
    throw new UsageError("--connection and --storage-class exclude each other: the class names its connection");
  if (nodes === "-" && storageClass === "-") throw new UsageError("only one of --nodes and --storage-class can be -");
  const env = pairs("--env", variables);
  const given = {
    nodeName: nodeName ?? env.get("CSI_NODE_ID"),
    hostname,
    env,
    files: pairs("--file", file),
    labels: pairs("--label", label),
  };
  return { ...flags, config, given, output };
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
