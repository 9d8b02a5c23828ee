import { isMap, isScalar, type Pair, parseDocument, stringify } from "yaml";
import { singleName } from "../config/single.ts";
import { isConnectionName } from "../core/handle.ts";
import { type LintSettings, lint, type Problem } from "../lint/lint.ts";
import { textAt } from "../lint/world.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { isOff, type OldDeployment } from "./old.ts";

/** An old deployment as a connection. */
export interface TakenOver {
  readonly old: OldDeployment;
  /** The name of its connection. */
  readonly connection: string;
  /** The text of its connection file. */
  readonly text: string;
  /** Whether Kubernetes attaches the volumes: always where they are disks, else as in the old deployment. */
  readonly attaches: boolean;
  /** What is not as it was, or could be better. */
  readonly words: readonly string[];
}

/** One name for each: the last part of the driver's name where that is enough, else the whole. */
export function connectionNames(names: readonly string[]): readonly string[] {
  const short = names.map(name => name.split(".").at(-1) ?? name);
  return names.map((name, index) => {
    const own = short[index] ?? name;
    const clear = short.filter(each => each === own).length === 1 && own !== singleName;
    return clear && isConnectionName(own) ? own : name;
  });
}

/** The folder where the manifests mount the connection files. */
export const connectionFolder = "/connections";

/** The text of the main file; `node` is the block that all old configurations share. */
export const mainText = (node: unknown): string =>
  stringify({ driver: "proxy", proxy: { configFolder: connectionFolder }, ...(node !== undefined && { node }) }, plain);

/** Long lines stay whole. */
const plain = { lineWidth: 0 } as const;

/** The `node:` block of all of them, where they agree; nodes read the main file alone. */
export function sharedNode(olds: readonly OldDeployment[]): unknown {
  const blocks = olds.map(({ config }) => config["node"] ?? undefined);
  const [first] = blocks;
  return first !== undefined && blocks.every(each => JSON.stringify(each) === JSON.stringify(first))
    ? first
    : undefined;
}

/**
 * The connection files. What has no effect is left out. What csimux warns of but the old driver did stays, with a comment that
 * takes the warning back; both are said in words.
 */
export function connectionsOf(
  olds: readonly OldDeployment[],
  settings: LintSettings,
): { readonly main: string; readonly taken: readonly TakenOver[] } {
  const names = connectionNames(olds.map(({ name }) => name));
  const node = sharedNode(olds);
  const main = mainText(node);
  const said = olds.map((): string[] => []);
  const texts = olds.map((old, index) => {
    const { node: own, ...rest } = old.config;
    if (own && node === undefined)
      said[index]?.push(
        '"node" stands in the main file now, where it counts for all connections; those of the old deployments differ, so none was taken over: look at examples/reference.md',
      );
    return stringify(withoutEmpty(rest), plain);
  });
  // Keys first: a text without one is written anew, and its comments would move.
  for (let round = 0; round < mostRounds; round++) {
    const open = problemsOf(main, names, texts, settings).filter(settles);
    const problem = open.find(({ rule }) => rule === "ignored-key") ?? open[0];
    if (problem === undefined) break;
    const index = names.indexOf(problem.file.slice(0, -".yaml".length));
    const { text, words } = settled(texts[index] ?? "", problem);
    texts[index] = text;
    said[index]?.push(words);
  }
  const taken = olds.map((old, index) => ({
    old,
    connection: names[index] ?? "",
    text: texts[index] ?? "",
    attaches: !isOff(old.values, "csiDriver", "attachRequired") || isDisk(old, settings),
    words: said[index] ?? [],
  }));
  for (const { old, attaches, words } of taken)
    if (attaches && isOff(old.values, "csiDriver", "attachRequired")) words.push(attachedNow);
  return { main, taken };
}

const isDisk = ({ config }: OldDeployment, { modules }: LintSettings): boolean =>
  modules.some(
    ({ names, facts }) => names.includes(textAt(config, "driver") ?? "") && facts.access.kinds.includes("block"),
  );

const attachedNow =
  "the volumes are attached now (attachRequired: true), although the old deployment did not attach them: only then does Kubernetes keep a ReadWriteOnce disk on one node, and two nodes that mount it destroy its file system. A ReadWriteOnce claim that pods on two nodes use gets Multi-Attach errors. Restart kubelet on every node after the change, one by one (pods go on running): until then Kubernetes may detach a volume that is still mounted there";

const mostRounds = 500;

/** A key without a value says nothing; democratic-csi's examples are full of them. */
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
): readonly Problem[] =>
  lint(
    [
      { file: "proxy.yaml", text: main, role: "main" },
      ...names.map((name, index) => ({ file: `${name}.yaml`, text: texts[index] ?? "", role: "connection" as const })),
    ],
    settings,
  ).problems;

/** Warnings that are a matter of the values themselves, and for their owner to settle. */
const forOwner: ReadonlySet<string> = new Set(["placeholder-value", "unused-suppression"]);

const settles = ({ file, rule, severity, blocks }: Problem): boolean =>
  file !== "proxy.yaml" && severity === "warning" && !blocks && !forOwner.has(rule);

function settled(text: string, { rule, line, path, message, fix }: Problem): { text: string; words: string } {
  const place = path === "" ? "" : `${path}: `;
  if (rule === "ignored-key") return { text: withoutKey(text, line), words: `${place}left out: ${message}` };
  const lines = text.split("\n");
  lines[line - 1] = `${lines[line - 1]} # csimux-ignore ${rule}`;
  const better = fix === undefined ? "" : ` To do better: ${fix}`;
  return { text: lines.join("\n"), words: `${place}as it was, although ${message}.${better} [${rule}]` };
}

/** The text without the key that begins in a line, and all below it. */
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

/** Why an old deployment cannot be one of the connections, or undefined. */
export function unfit({ config, values }: OldDeployment, isLocal: (driver: string) => boolean): string | undefined {
  const driver = textAt(config, "driver") ?? "";
  if (driver === "proxy")
    return "this is the proxy driver already: its main file, connection files and handles are csimux's own; put the image of csimux into its values";
  if (isLocal(driver))
    return `${driver} keeps volumes on the nodes, so each node needs a controller: take it over in place, by putting the image of csimux into its values (README, "Coming from democratic-csi")`;
  return isMapping(values) ? undefined : "these are no values";
}

/** What the parameters of a class mean to its connection, in words. */
export function classWords(
  main: string,
  taken: readonly TakenOver[],
  classes: readonly { readonly connection: string; readonly manifest: Mapping }[],
  settings: LintSettings,
): readonly { readonly connection: string; readonly line: string }[] {
  const inputs = [
    { file: "proxy.yaml", text: main, role: "main" as const },
    ...taken.map(({ connection, text }) => ({ file: `${connection}.yaml`, text, role: "connection" as const })),
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
