import type { DriverModule } from "../drivers/module.ts";
import { type Diagnostic, located, problem } from "../schema/finding.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { PatternCompiler } from "../topology/pattern.ts";
import { withPosition } from "../yaml/parse.ts";
import { checks } from "./checks/index.ts";
import { deployments } from "./deployments.ts";
import { type Excerpt, excerpts, printable } from "./excerpt.ts";
import { gather } from "./gather.ts";
import type { Input } from "./input.ts";
import type { LintInput } from "./lint-input.ts";
import { rules } from "./rules.ts";
import type { DocumentDiagnostic, SourceDocument } from "./source-document.ts";
import { suppressed } from "./suppress.ts";
import { unseen } from "./unseen.ts";
import { containersOf, isServing } from "./workloads.ts";

/** A diagnostic in the coordinates of the file that the user gave, with the line to show. */
export interface Problem extends Diagnostic {
  readonly excerpt: Excerpt | undefined;
}

/** What linting gave, in the order of the inputs, then by line. */
export interface Linted {
  readonly problems: readonly Problem[];
  /** One for each deployment. */
  readonly worlds: readonly LintInput[];
  /** The files that held something of csimux, in the order of the inputs. */
  readonly files: readonly string[];
  /** What belongs to them and could not be looked at, each in words. */
  readonly unseen: readonly string[];
}

/** Manifests that run csimux are of csimux, and so is a kustomization that makes the Secret of its connections. */
function filesOf(world: LintInput): readonly string[] {
  const { main, connections, classes, helm, volumes, workloads } = world;
  const running = workloads.filter(each => containersOf(each).some(isServing));
  const all = [...(main ? [main] : []), ...connections, ...classes, ...helm, ...volumes, ...running];
  return [...all.map(({ leaf }) => leaf.file), ...world.encrypted];
}

const ruleIds: ReadonlySet<string> = new Set(rules.map(({ id }) => id));

/** These depend on where csimux runs, not on the files; `outside` decides whether they can be known here. */
const environmental: ReadonlySet<string> = new Set(["unset-variable", "unreadable-file"]);

/** What linting needs besides the files. */
export interface LintSettings {
  readonly modules: readonly DriverModule[];
  readonly outside: ValueResolver;
  /** This machine has the environment and the files that csimux will have; otherwise references to them pass. */
  readonly checkEnvironment: boolean;
  /** Compiles patterns of topology rules. */
  readonly compile: PatternCompiler;
}

/** Checks all inputs; those of one deployment together. Pure; never throws. */
export function lint(inputs: readonly Input[], settings: LintSettings): Linted {
  const all = deployments(inputs).map(each => lintOne(each, settings));
  const order = new Map(inputs.map(({ file }, index) => [file, index]));
  const problems = all.flatMap(each => each.problems);
  problems.sort(
    (a, b) =>
      (order.get(a.file) ?? 0) - (order.get(b.file) ?? 0) ||
      a.line - b.line ||
      a.column - b.column ||
      compare(a.rule, b.rule),
  );
  const worlds = all.map(({ world }) => world);
  const files = new Set([...worlds.flatMap(filesOf), ...problems.map(({ file }) => file)]);
  const looked = inputs.map(({ file }) => file).filter(file => files.has(file));
  return { problems: withoutRepeats(problems), worlds, files: looked, unseen: unseen(worlds) };
}

function lintOne(
  inputs: readonly Input[],
  settings: LintSettings,
): { readonly problems: readonly Problem[]; readonly world: LintInput } {
  const { modules, outside, checkEnvironment: atHome, compile } = settings;
  const { world, leaves, reported, placed: found } = gather(inputs, modules, outside, compile);
  const more = checks.flatMap(check => [...check(world)]);
  const all = [
    ...found,
    ...[...reported, ...more].map(each => ({
      leaf: each.leaf,
      diagnostic: withPosition(each.leaf.source, each.finding),
    })),
  ];
  const relevant = atHome ? all : all.filter(({ diagnostic }) => !environmental.has(diagnostic.rule));
  return { problems: byDocument(leaves, relevant).flatMap(outwards), world };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface Group {
  /** The first document; a file inside a Secret has only one. */
  readonly leaf: SourceDocument;
  readonly placed: DocumentDiagnostic[];
}

/** Documents of one file share their text, so their comments are looked at together. */
function byDocument(leaves: readonly SourceDocument[], all: readonly DocumentDiagnostic[]): readonly Group[] {
  const groups = new Map<string, Group>();
  const group = (leaf: SourceDocument): Group => {
    const key = `${leaf.file}\0${leaf.inside}`;
    const known = groups.get(key) ?? { leaf, placed: [] };
    groups.set(key, known);
    return known;
  };
  for (const leaf of leaves) group(leaf);
  for (const each of all) group(each.leaf).placed.push(each);
  return [...groups.values()];
}

function outwards({ leaf: first, placed: found }: Group): readonly Problem[] {
  const leafOf = new Map(found.map(({ leaf, diagnostic }) => [diagnostic, leaf]));
  const excerptOf = new Map<SourceDocument, ReturnType<typeof excerpts>>();
  const all = suppressed(first.file, first.text, [...leafOf.keys()], ruleIds);
  return limited(all).map(diagnostic => {
    const leaf = leafOf.get(diagnostic) ?? first;
    const excerpt = excerptOf.get(leaf) ?? excerpts(leaf);
    excerptOf.set(leaf, excerpt);
    const { line, column, message } = diagnostic;
    const outer = leaf.outward({ line, column });
    const inside = leaf.inside === "" ? "" : outer ? `${leaf.inside}: ` : `${leaf.inside}:${line}:${column}: `;
    return {
      ...diagnostic,
      ...(outer ?? leaf.start),
      path: words(diagnostic.path),
      message: words(inside + message),
      fix: diagnostic.fix === undefined ? undefined : words(diagnostic.fix),
      excerpt: excerpt(diagnostic),
    };
  });
}

const longestText = 500;

/** Names from a file may be long, and hold anything. */
const words = (text: string): string => printable(text.length > longestText ? `${text.slice(0, longestText)}…` : text);

/** More in one document are of no use to anybody. */
const mostProblems = 200;

/** The first problems of a document, and how many there are behind them. */
function limited(all: readonly Diagnostic[]): readonly Diagnostic[] {
  const last = all[mostProblems];
  if (last === undefined) return all;
  const sorted = [...all].sort((a, b) => a.line - b.line || a.column - b.column).slice(0, mostProblems);
  const { line, column } = sorted.at(-1) ?? last;
  const message = `${all.length - mostProblems} more problems are not shown`;
  const more = located(last.file, { line, column }, problem("too-many-problems", [], message, "repair these first"));
  return [...sorted, more];
}

function withoutRepeats(problems: readonly Problem[]): readonly Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ file, line, column, rule, path, message }) => {
    const key = JSON.stringify([file, line, column, rule, path, message]);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
