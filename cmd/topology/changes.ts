import type { Segments } from "../../lib/core/access.ts";
import { codeName } from "./node-answer.ts";
import type { EvaluatedNode } from "./reach.ts";

/** A label that would keep a node from registering. */
export interface LabelChange {
  readonly key: string;
  readonly from: string;
  /** Undefined if the key is no longer reported. */
  readonly to: string | undefined;
}

/**
 * Changes that a node's labels need before it can register with other segments: kubelet writes each segment as a label
 * once and refuses a node that reports another value for it. A new key needs nothing.
 */
export const labelChanges = (before: Segments, after: Segments): readonly LabelChange[] =>
  Object.entries(before)
    .filter(([key, from]) => after[key] !== from)
    .map(([key, from]) => ({ key, from, to: after[key] }));

/** One node before and after a change of the main file. */
export interface NodeChange {
  readonly node: EvaluatedNode;
  /** What it reported before; undefined if it could not register. */
  readonly before: Segments | undefined;
}

interface LabelCommand extends LabelChange {
  readonly node: string;
  /** Undefined where the label may stay: existing volumes may still name it. */
  readonly command: string | undefined;
}

/** Label changes of all nodes that can register. Real labels take precedence over the result of the old rules. */
const commandsOf = (changes: readonly NodeChange[]): readonly LabelCommand[] =>
  changes.flatMap(({ node: { name, labels, report }, before = {} }) => {
    const { segments, failure } = report;
    if (failure) return [];
    const real = Object.entries(labels ?? {}).filter(([key]) => key in before || key in segments);
    return labelChanges({ ...before, ...Object.fromEntries(real) }, segments).map(change => ({
      ...change,
      node: name,
      command:
        change.to === undefined
          ? undefined
          : `kubectl label node ${word(name)} ${word(`${change.key}=${change.to}`)} --overwrite`,
    }));
  });

const word = (text: string): string => (/^[A-Za-z0-9._/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A shell script of the commands; everything else in it is a comment. */
export function changesText(changes: readonly NodeChange[]): string {
  const all = commandsOf(changes);
  const failed = changes.flatMap(({ node: { name, report } }) =>
    report.failure
      ? [`# ${name} cannot register with the new rules: ${report.failure.message.replace(/\s+/g, " ")}`]
      : [],
  );
  const commands = all.flatMap(({ node, key, from, command }) =>
    command === undefined
      ? [`# ${node} keeps ${key}=${from}, which is no longer reported: existing volumes may need it`]
      : [`# volumes bound to ${key}=${from} will no longer be usable on ${node}`, command],
  );
  const restart = all.some(({ command }) => command !== undefined)
    ? ["# then restart the node plugin on these nodes to register them again"]
    : [];
  const none = all.length === 0 && failed.length === 0 ? ["# no label changes"] : [];
  return `${[...failed, ...commands, ...restart, ...none].join("\n")}\n`;
}

/** The same for programs. */
export const changesData = (changes: readonly NodeChange[]) => ({
  changes: commandsOf(changes).map(({ node, key, from, to = null, command = null }) => ({
    node,
    key,
    from,
    to,
    command,
  })),
  errors: changes.flatMap(({ node: { name, report } }) =>
    report.failure ? [{ node: name, code: codeName(report.failure), message: report.failure.message }] : [],
  ),
});
