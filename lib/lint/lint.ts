import { type Diagnostic, located, type Position, problem } from "../schema/finding.ts";
import { suppressed } from "../schema/suppress.ts";
import type { DocumentDiagnostic, SourceDocument } from "./document.ts";
import { type Excerpt, excerpts, printable } from "./excerpt.ts";
import { type Gathered, gather, type ReadSettings } from "./gather.ts";
import type { Input } from "./input.ts";
import type { LintInput } from "./lint-input.ts";
import { checks, rules } from "./rules/index.ts";
import { readingRules } from "./rules/reading.ts";
import { unseen } from "./unseen.ts";
import { containersOf, isServing } from "./workloads.ts";

/** A problem at a position of a file that the user gave, with the line to show. */
export interface LintProblem extends Diagnostic {
  readonly excerpt: Excerpt | undefined;
}

/** The result of linting. */
export interface Linted {
  /** In the order of the inputs, then by line. */
  readonly problems: readonly LintProblem[];
  /** One for each deployment. */
  readonly deployments: readonly LintInput[];
  /** The files that concern csimux, in the order of the inputs. */
  readonly files: readonly string[];
  /** Parts of the deployments that could not be checked, each in words. */
  readonly unseen: readonly string[];
}

/** The facts needed to lint, besides the files. */
export interface LintSettings extends ReadSettings {
  /** Whether this machine has the environment and the files of csimux; otherwise references to them pass. */
  readonly checkEnvironment: boolean;
}

const ruleIds: ReadonlySet<string> = new Set(rules.map(({ id }) => id));
const onlineRules: ReadonlySet<string> = new Set(rules.filter(({ online }) => online).map(({ id }) => id));

/** Checks all inputs, those of one deployment together. Pure; never throws. */
export function lint(inputs: readonly Input[], settings: LintSettings): Linted {
  const all = gather(inputs, settings);
  const order = new Map(inputs.map(({ file }, index) => [file, index]));
  const problems = all
    .flatMap(each => problemsOf(each, settings))
    .sort((a, b) => (order.get(a.file) ?? 0) - (order.get(b.file) ?? 0) || byPosition(a, b) || compare(a.rule, b.rule));
  const read = all.map(({ input }) => input);
  const own = new Set([...read.flatMap(filesOf), ...problems.map(({ file }) => file)]);
  const files = inputs.map(({ file }) => file).filter(file => own.has(file));
  return { problems: withoutRepeats(problems), deployments: read, files, unseen: unseen(read) };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const byPosition = (a: Position, b: Position): number => a.line - b.line || a.column - b.column;

/** The files of a deployment; its manifests only if they run csimux. */
function filesOf({ main, connections, classes, helm, volumes, workloads, encrypted }: LintInput): readonly string[] {
  const running = workloads.filter(each => containersOf(each).some(isServing));
  const all = [...(main ? [main] : []), ...connections, ...classes, ...helm, ...volumes, ...running];
  return [...all.map(({ document }) => document.file), ...encrypted];
}

function problemsOf({ input, documents, diagnostics }: Gathered, settings: LintSettings): readonly LintProblem[] {
  const all = [...diagnostics, ...checks.flatMap(check => [...check(input)])];
  const relevant = settings.checkEnvironment ? all : all.filter(each => !onlineRules.has(each.diagnostic.rule));
  return byText(documents, relevant).flatMap(problemsInText);
}

/** Documents with one text: those of one file, which share its comments. */
interface TextGroup {
  /** The first document; a file inside a Secret has only one. */
  readonly first: SourceDocument;
  readonly all: DocumentDiagnostic[];
}

function byText(documents: readonly SourceDocument[], all: readonly DocumentDiagnostic[]): readonly TextGroup[] {
  const groups = new Map<string, TextGroup>();
  const groupOf = (document: SourceDocument): TextGroup => {
    const key = `${document.file}\0${document.inside}`;
    const group = groups.get(key) ?? { first: document, all: [] };
    groups.set(key, group);
    return group;
  };
  for (const document of documents) groupOf(document);
  for (const each of all) groupOf(each.document).all.push(each);
  return [...groups.values()];
}

/** Converts diagnostics of a text to problems of the file that the user gave. */
function problemsInText({ first, all }: TextGroup): readonly LintProblem[] {
  const documentOf = new Map(all.map(({ document, diagnostic }) => [diagnostic, document]));
  const excerptOf = new Map<SourceDocument, ReturnType<typeof excerpts>>();
  return limited(suppressed(first.file, first.text, [...documentOf.keys()], ruleIds)).map(diagnostic => {
    const document = documentOf.get(diagnostic) ?? first;
    const excerpt = excerptOf.get(document) ?? excerpts(document.text);
    excerptOf.set(document, excerpt);
    const { line, column, path, message, fix } = diagnostic;
    const outer = document.outward({ line, column });
    const inside =
      document.inside === "" ? "" : outer ? `${document.inside}: ` : `${document.inside}:${line}:${column}: `;
    return {
      ...diagnostic,
      ...(outer ?? document.start),
      path: safe(path),
      message: safe(inside + message),
      fix: fix === undefined ? undefined : safe(fix),
      excerpt: excerpt(diagnostic),
    };
  });
}

const longestText = 500;

/** Names from a file may be long and contain any character. */
const safe = (text: string): string => printable(text.length > longestText ? `${text.slice(0, longestText)}…` : text);

const mostProblems = 200;

function limited(all: readonly Diagnostic[]): readonly Diagnostic[] {
  if (all.length <= mostProblems) return all;
  const sorted = [...all].sort(byPosition).slice(0, mostProblems);
  const { file = "", line = 1, column = 1 } = sorted.at(-1) ?? {};
  const message = `${all.length - mostProblems} more problems are not shown`;
  return [
    ...sorted,
    located(file, { line, column }, problem(readingRules["too-many-problems"].id, [], message, "repair these first")),
  ];
}

function withoutRepeats(problems: readonly LintProblem[]): readonly LintProblem[] {
  const seen = new Set<string>();
  return problems.filter(({ file, line, column, rule, path, message }) => {
    const key = JSON.stringify([file, line, column, rule, path, message]);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
