import { readFile } from "node:fs/promises";
import ts from "typescript";
import { root } from "../spawned.ts";
import { below } from "./below.ts";
import type { Source } from "./conventions.ts";

/** The helpers themselves, and tests of real machines, which have states that only time ends. */
const exempt = /^tests\/(?:waiting\.ts$|(?:lab|cluster|nomad)\/)/;

const timers = /^(?:globalThis\.)?setTimeout$|^Bun\.sleep(?:Sync)?$|^sleep(?:Sync)?$/;
const helpers = /\b(?:setTimeout|sleep|sleepSync|pause|passing|later)\b/;

const remedy =
  "use a loop with pause(), or passing() or later() for a scenario that consists of time (tests/waiting.ts)";

/** Whether it is in a loop of its function. */
function isInLoop(node: ts.Node): boolean {
  for (let at = node.parent; at && !ts.isFunctionLike(at); at = at.parent)
    if (ts.isIterationStatement(at, false)) return true;
  return false;
}

/** Names that a file imports from a module. */
const importedFrom = (source: ts.SourceFile, module: RegExp): readonly string[] =>
  source.statements.filter(ts.isImportDeclaration).flatMap(({ moduleSpecifier, importClause }) => {
    const names = importClause?.namedBindings;
    if (!names || !ts.isNamedImports(names) || !module.test(moduleSpecifier.getText(source))) return [];
    return names.elements.map(({ name, propertyName }) => (propertyName ?? name).text);
  });

function problemsOf({ path, text }: Source): readonly string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const lines = text.split("\n");
  const own = new Set(importedFrom(source, /\/waiting\.ts"$/));
  const found: string[] = importedFrom(source, /^"(?:node:)?timers\/promises"$/).includes("setTimeout")
    ? [`${path}: setTimeout of timers/promises: ${remedy}`]
    : [];
  const problem = (node: ts.CallExpression, line: number): string | undefined => {
    const called = node.expression.getText(source);
    // This is a turn of the event loop.
    if (timers.test(called))
      return called === "Bun.sleep" && node.arguments[0]?.getText(source) === "0" ? undefined : remedy;
    if (!own.has(called)) return undefined;
    if (called === "pause") return isInLoop(node) ? undefined : "pause() is for loops that look for something";
    const isExplained = /\/\/|\*\/$/m.test(`${lines[line - 1]}\n${lines[line]}`);
    return isExplained ? undefined : `say in a comment above it why the scenario consists of time`;
  };
  const walk = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      const text = problem(node, line);
      if (text) found.push(`${path}:${line + 1}: ${node.expression.getText(source)}: ${text}`);
    }
    ts.forEachChild(node, walk);
  };
  walk(source);
  return found;
}

/** Where tests let time pass in another way than by the helpers of tests/waiting.ts, one line each. */
export const sleeps = (all: readonly Source[]): readonly string[] =>
  all.filter(({ path, text }) => !exempt.test(path) && helpers.test(text)).flatMap(problemsOf);

/** As `sleeps`, in the checkout. */
export async function checkSleeps(): Promise<readonly string[]> {
  const names = below(`${root}/tests`, "files only").filter(name => name.endsWith(".ts"));
  const read = names.map(async name => ({
    path: `tests/${name}`,
    text: await readFile(`${root}/tests/${name}`, "utf8"),
  }));
  return sleeps(await Promise.all(read));
}
