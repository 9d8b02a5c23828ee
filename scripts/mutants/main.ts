import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import ts from "typescript";
import { groupBy } from "../../lib/core/group-by.ts";
import { unmountBelow } from "../sandbox.ts";
import { root, spawned } from "../spawned.ts";
import { readImports } from "../test/imports.ts";
import { killMarked } from "../test/marked.ts";
import { fails, testRuns, testsOf } from "./test-runs.ts";

// Do the tests notice when csimux is wrong? Makes N changes of lib and cmd, drawn by SEED, one at a time in a copy of the last commit.

/** The text from `start` to `end` of a file becomes `becomes`. */
type Mutant = Readonly<Record<"file" | "kind" | "becomes", string> & Record<"start" | "end", number>>;

const count = Number(process.env["N"] || 60);
const seed = process.env["SEED"] || String(Date.now() % 1_000_000);
/** For how long tests of one mutant are started, in milliseconds. */
const budgetMs = 20_000;

/** Each becomes its neighbour. */
const operators = "&& || < <= > >= === !==".split(" ");

type Change = readonly [kind: string, node: ts.Node, becomes: string, end?: number];

function changesOf(node: ts.Node, source: ts.SourceFile): readonly Change[] {
  const negated = (at: ts.Node): readonly Change[] => [["negated condition", at, `!(${at.getText(source)})`]];
  if (ts.isIfStatement(node)) return negated(node.expression);
  if (ts.isConditionalExpression(node)) return negated(node.condition);
  const at = ts.isBinaryExpression(node) ? operators.indexOf(node.operatorToken.getText(source)) : -1;
  if (ts.isBinaryExpression(node))
    return at < 0 ? [] : [["other operator", node.operatorToken, operators[at ^ 1] ?? ""]];
  if (ts.isAwaitExpression(node)) return [["no await", node, "", node.expression.getStart(source)]];
  const isStatement = ts.isExpressionStatement(node) || ts.isThrowStatement(node);
  if (isStatement && !ts.isSourceFile(node.parent))
    return [...[["no statement", node, ";"] as const], ["early return", node, "return; ", node.getStart(source)]];
  if (ts.isNumericLiteral(node)) return [["number + 1", node, `(${node.text} + 1)`]];
  if (/^(?:true|false)$/.test(node.getText(source))) return [["other truth", node, `!${node.getText(source)}`]];
  return ts.isStringLiteral(node) && node.text !== "" ? [["empty string", node, '""']] : [];
}

function mutantsOf(file: string, text: string): readonly Mutant[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: Mutant[] = [];
  const walk = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isImportDeclaration(node)) return;
    for (const [kind, at, becomes, end = at.end] of changesOf(node, source))
      found.push({ file, kind, becomes, start: at.getStart(source), end });
    ts.forEachChild(node, walk);
  };
  walk(source);
  return found;
}

const mutated = (text: string, { start, end, becomes }: Mutant) => text.slice(0, start) + becomes + text.slice(end);
const isValid = (text: string) => ts.transpileModule(text, { reportDiagnostics: true }).diagnostics?.length === 0;

/** Each kind of change as often as the others, although there are more strings than anything else. */
function drawn(texts: ReadonlyMap<string, string>): readonly Mutant[] {
  const all = [...texts].flatMap(entry => mutantsOf(...entry));
  const hashed = all.map(mutant => ({ mutant, by: Bun.hash(seed + JSON.stringify(mutant)) }));
  const sorted = hashed.sort((a, b) => (a.by < b.by ? -1 : 1));
  const queues = [...groupBy(sorted, ({ mutant }) => mutant.kind).values()].map(each => [...each]);
  const chosen: Mutant[] = [];
  for (let at = 0; chosen.length < count && queues.some(queue => queue.length > 0); at++) {
    const next = queues[at % queues.length]?.shift()?.mutant;
    if (next && isValid(mutated(texts.get(next.file) ?? "", next))) chosen.push(next);
  }
  return chosen;
}

/** The test that fails with the change, passes without it, and fails with it again; undefined if there is none. */
async function killer(folder: string, mutant: Mutant, text: string, tests: readonly string[]) {
  const put = (content: string) => writeFile(join(folder, "copy", mutant.file), content);
  const notices = (file: string) => put(mutated(text, mutant)).then(() => fails(folder, file).finally(() => put(text)));
  const began = performance.now();
  for (const file of tests) {
    if ((await notices(file)) && !(await fails(folder, file)) && (await notices(file))) return file;
    if (performance.now() - began > budgetMs) break;
  }
  return undefined;
}

async function main(folder: string): Promise<void> {
  const copy = join(folder, "copy");
  const { code, stderr } = await spawned(["git", "worktree", "add", "--quiet", "--detach", copy]);
  if (code !== 0) throw new Error(stderr);
  await symlink(`${root}/node_modules`, join(copy, "node_modules"));
  const texts = new Map<string, string>();
  for (const file of readImports().keys())
    if (/^(?:lib|cmd)\/(?!csi\/gen\/)/.test(file)) texts.set(file, await readFile(join(copy, file), "utf8"));
  const mutants = drawn(texts);
  const all = await testRuns(folder);
  console.log(`${mutants.length} changes, SEED=${seed}, ${all.length} files of tests`);
  let killed = 0;
  for (const mutant of mutants) {
    const text = texts.get(mutant.file) ?? "";
    const line = text.slice(0, mutant.start).split("\n").length;
    const by = await killer(folder, mutant, text, testsOf(all, mutant.file, line));
    const [was, is] = [text, mutated(text, mutant)].map(all => all.split("\n")[line - 1]?.trim());
    const [what, rest] = by ? ["killed", `, by ${by}`] : ["SURVIVED", `\n  - ${was}\n  + ${is}`];
    console.log(`${what} ${mutant.file}:${line} ${mutant.kind}${rest}`);
    if (by) killed++;
  }
  console.log(`${killed} of ${mutants.length} killed: ${Math.round((100 * killed) / mutants.length)} %`);
}

const folder = await mkdtemp(join(tmpdir(), "csimux-m-"));
const end = async (): Promise<void> => {
  killMarked(process.pid);
  await unmountBelow(folder);
  await spawned(["git", "worktree", "remove", "--force", join(folder, "copy")]);
  await rm(folder, { recursive: true, force: true });
};
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void end().then(() => process.exit(1)));
await main(folder).finally(end);
