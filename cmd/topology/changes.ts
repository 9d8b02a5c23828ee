import type { Segments } from "../../lib/core/access.ts";
import { type LabelChange, labelChanges } from "../../lib/topology/reach.ts";
import { codeName } from "./report.ts";
import type { ViewedNode } from "./view.ts";

/** One node before and after a change of the main file. */
export interface Change {
  readonly node: ViewedNode;
  /** What it reported before; undefined when it could not register. */
  readonly before: Segments | undefined;
}

interface Step extends LabelChange {
  readonly node: string;
  /** Undefined where the label may stay: volumes made before may still name it. */
  readonly command: string | undefined;
}

/** What must be done to the node's labels; real labels count more than what the old rules would have given. */
function steps({ node, before = {} }: Change): readonly Step[] {
  const { segments } = node.report;
  const ours = Object.entries(node.labels ?? {}).filter(([key]) => key in before || key in segments);
  return labelChanges({ ...before, ...Object.fromEntries(ours) }, segments).map(change => ({
    ...change,
    node: node.name,
    command:
      change.to === undefined
        ? undefined
        : `kubectl label node ${word(node.name)} ${word(`${change.key}=${change.to}`)} --overwrite`,
  }));
}

/** A word of a shell command line. */
const word = (text: string): string => (/^[A-Za-z0-9._/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The commands as a script: everything else is a comment. */
export function changesText(changes: readonly Change[]): string {
  const all = changes.filter(({ node }) => !node.report.failure).flatMap(steps);
  const failed = changes.flatMap(({ node: { name, report } }) =>
    report.failure ? [`# ${name} cannot register with the new rules: ${oneLine(report.failure.message)}`] : [],
  );
  const commands = all.flatMap(({ node, key, from, command }) =>
    command === undefined
      ? [`# ${node} keeps ${key}=${from}, which is not reported any more: volumes made before may need it`]
      : [`# volumes bound to ${key}=${from} will not be usable on ${node} any more`, command],
  );
  const restart = all.some(({ command }) => command !== undefined)
    ? ["# then restart the node plugin on these nodes, so that they register again"]
    : [];
  const none = all.length === 0 && failed.length === 0 ? ["# no label changes"] : [];
  return `${[...failed, ...commands, ...restart, ...none].join("\n")}\n`;
}

const oneLine = (text: string): string => text.replace(/\s+/g, " ");

/** The same for programs. */
export const changesData = (changes: readonly Change[]) => ({
  changes: changes
    .filter(({ node }) => !node.report.failure)
    .flatMap(steps)
    .map(({ node, key, from, to = null, command = null }) => ({ node, key, from, to, command })),
  errors: changes.flatMap(({ node: { name, report } }) =>
    report.failure ? [{ node: name, code: codeName(report.failure), message: report.failure.message }] : [],
  ),
});
