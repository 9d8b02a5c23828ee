import { isMap, isScalar, type Pair, parseDocument, stringify } from "yaml";
import { singleName } from "../config/single.ts";
import { isConnectionName } from "../core/handle.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { type LintProblem, type LintSettings, lint } from "../lint/lint.ts";
import { textAt } from "../lint/lint-input.ts";
import { isOff, type OldDeployment } from "./old.ts";

/** An old deployment as a connection. */
export interface TakenOverConnection {
  readonly old: OldDeployment;
  /** The name of its connection. */
  readonly connection: string;
  /** The text of its connection file. */
  readonly text: string;
  /** Whether Kubernetes attaches the volumes: always where they are disks, else as in the old deployment. */
  readonly attaches: boolean;
  /** Differences from the old deployment, and possible improvements. */
  readonly words: readonly string[];
}

/** One name for each: the last part of the driver's name if it is unique, else the whole. */
function connectionNames(names: readonly string[]): readonly string[] {
  const short = names.map(name => name.split(".").at(-1) ?? name);
  return names.map((name, index) => {
    const own = short[index] ?? name;
    const clear = short.filter(each => each === own).length === 1 && own !== singleName;
    return clear && isConnectionName(own) ? own : name;
  });
}

/** The folder where the manifests mount the connection files. */
const connectionFolder = "/connections";

/** The text of the main file; `node` is the block that all old configurations share. */
const mainText = (node: unknown): string =>
  stringify({ driver: "proxy", proxy: { configFolder: connectionFolder }, ...(node !== undefined && { node }) }, plain);

const plain = { lineWidth: 0 } as const;

/** The `node:` block of all deployments if they agree; nodes read only the main file. */
function sharedNode(olds: readonly OldDeployment[]): unknown {
  const blocks = olds.map(({ config }) => config["node"] ?? undefined);
  const [first] = blocks;
  return first !== undefined && blocks.every(each => JSON.stringify(each) === JSON.stringify(first))
    ? first
    : undefined;
}

/**
 * The connection files. Settings without effect are omitted. Settings that csimux warns about but the old driver
 * accepted are kept, with a comment that suppresses the warning; `words` reports both.
 */
export function connectionsOf(
  olds: readonly OldDeployment[],
  settings: LintSettings,
): { readonly main: string; readonly converted: readonly TakenOverConnection[] } {
  const names = connectionNames(olds.map(({ name }) => name));
  const node = sharedNode(olds);
  const main = mainText(node);
  const reports = olds.map((): string[] => []);
  const texts = olds.map((old, index) => {
    const { node: own, ...rest } = old.config;
    if (own && node === undefined)
      reports[index]?.push(
        '"node" is now in the main file and applies to all connections; the blocks of the old deployments differ, so none was carried over: see examples/guide/reference.md',
      );
    return stringify(withoutEmpty(rest), plain);
  });
  // Remove keys first: that rewrites the text, which would move its comments.
  for (let round = 0; round < mostRounds; round++) {
    const open = problemsOf(main, names, texts, settings).filter(settles);
    const problem = open.find(({ rule }) => rule === "ignored-key") ?? open[0];
    if (problem === undefined) break;
    const index = names.indexOf(problem.file.slice(0, -".yaml".length));
    const { text, words } = settled(texts[index] ?? "", problem);
    texts[index] = text;
    reports[index]?.push(words);
  }
  const converted = olds.map((old, index) => ({
    old,
    connection: names[index] ?? "",
    text: texts[index] ?? "",
    attaches: !isOff(old.values, "csiDriver", "attachRequired") || isDisk(old, settings),
    words: reports[index] ?? [],
  }));
  for (const { old, attaches, words } of converted)
    if (attaches && isOff(old.values, "csiDriver", "attachRequired")) words.push(attachedNow);
  return { main, converted };
}

const isDisk = ({ config }: OldDeployment, { modules }: LintSettings): boolean =>
  modules.some(
    ({ names, facts }) => names.includes(textAt(config, "driver") ?? "") && facts.access.kinds.includes("block"),
  );

const attachedNow =
  "the volumes are now attached (attachRequired: true), although the old deployment did not attach them: only then does Kubernetes keep a ReadWriteOnce disk on one node, and two nodes that mount it destroy its file system. A ReadWriteOnce claim used by pods on two nodes gets Multi-Attach errors. Restart kubelet on every node after the change, one by one (pods keep running): until then Kubernetes may detach a volume that is still mounted there";

const mostRounds = 500;

/** Removes keys without a value; democratic-csi's examples have many. */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmpty);
  if (!isMapping(value)) return value;
  const kept = Object.entries(value).filter(([, inner]) => inner !== null && inner !== undefined);
  return Object.fromEntries(kept.map(([key, inner]) => [key, withoutEmpty(inner)]));
}

const problemsOf = (
  main: string,
  names: readonly string[],
  texts: readonly string[],
  settings: LintSettings,
): readonly LintProblem[] =>
  lint(
    [
      { file: "proxy.yaml", text: main, role: "main" },
      ...names.map((name, index) => ({ file: `${name}.yaml`, text: texts[index] ?? "", role: "connection" as const })),
    ],
    settings,
  ).problems;

/** Warnings about the values themselves, which only their owner can settle. */
const forOwner: ReadonlySet<string> = new Set(["placeholder-value", "unused-suppression"]);

const settles = ({ file, rule, severity, blocks }: LintProblem): boolean =>
  file !== "proxy.yaml" && severity === "warning" && !blocks && !forOwner.has(rule);

function settled(text: string, { rule, line, path, message, fix }: LintProblem): { text: string; words: string } {
  const place = path === "" ? "" : `${path}: `;
  if (rule === "ignored-key") return { text: withoutKey(text, line), words: `${place}omitted: ${message}` };
  const lines = text.split("\n");
  lines[line - 1] = `${lines[line - 1]} # csimux-ignore ${rule}`;
  const better = fix === undefined ? "" : ` Suggestion: ${fix}`;
  return { text: lines.join("\n"), words: `${place}unchanged, although ${message}.${better} [${rule}]` };
}

/** The text without the key that starts in a line, and everything below it. */
function withoutKey(text: string, line: number): string {
  const document = parseDocument(text);
  const start =
    text
      .split("\n")
      .slice(0, line - 1)
      .join("\n").length + (line > 1 ? 1 : 0);
  const end = text.indexOf("\n", start);
  const isIt = ({ key }: Pair): boolean => {
    const from = isScalar(key) ? (key.range?.[0] ?? -1) : -1;
    return from >= start && (end < 0 || from < end);
  };
  const remove = (node: unknown): boolean => {
    if (!isMap(node)) return false;
    const found = node.items.findIndex(isIt);
    if (found < 0) return node.items.some(each => remove(each.value));
    node.items.splice(found, 1);
    return true;
  };
  remove(document.contents);
  return document.toString(plain);
}

/** Why an old deployment cannot become a connection, or undefined. */
export function unfit({ config, values }: OldDeployment, isLocal: (driver: string) => boolean): string | undefined {
  const driver = textAt(config, "driver") ?? "";
  if (driver === "proxy")
    return "this is already the proxy driver: its main file, connection files and handles are csimux's own; set the image in its values to csimux's";
  if (isLocal(driver))
    return `${driver} keeps volumes on the nodes, so each node needs a controller: take it over in place, by setting the image in its values to csimux's (examples/guide/migrate.md)`;
  return isMapping(values) ? undefined : "these are not Helm values";
}

/** Problems of the classes' parameters with their connections, in words. */
export function classWords(
  main: string,
  converted: readonly TakenOverConnection[],
  classes: readonly { readonly connection: string; readonly manifest: Mapping }[],
  settings: LintSettings,
): readonly { readonly connection: string; readonly line: string }[] {
  const inputs = [
    { file: "proxy.yaml", text: main, role: "main" as const },
    ...converted.map(({ connection, text }) => ({ file: `${connection}.yaml`, text, role: "connection" as const })),
    ...classes.map(({ connection, manifest }, index) => ({
      file: `class-${index}.yaml`,
      text: stringify(
        {
          ...manifest,
          parameters: { ...(isMapping(manifest["parameters"]) ? manifest["parameters"] : {}), connection },
        },
        plain,
      ),
      role: "given" as const,
    })),
  ];
  return lint(inputs, settings).problems.flatMap(({ file, path, message, fix }) => {
    const index = Number(/^class-(\d+)\.yaml$/.exec(file)?.[1] ?? -1);
    const found = classes[index];
    if (found === undefined) return [];
    const { connection, manifest } = found;
    const about = `${textAt(manifest, "kind")} ${textAt(manifest, "metadata", "name")}`;
    return [{ connection, line: `${about}: ${path}: ${message}${fix === undefined ? "" : `; ${fix}`}` }];
  });
}
