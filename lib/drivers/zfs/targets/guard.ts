import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv } from "../../../io/runner.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import { locked, onlyIf } from "../cli/lock.ts";
import type { Programs } from "../cli/steps.ts";
import { awaitDevice } from "./device.ts";
import { type ExportedTarget, foreignDevice, incomplete, type TargetExporter, unproved } from "./exporter.ts";
import { bearsTag } from "./names.ts";
import { noteSteps } from "./note.ts";

/** What a host has of a target. */
export interface TargetState {
  /** Its parts, as the tool calls them; "foreign" and another device's path. */
  readonly parts: ReadonlySet<string>;
}

/** One of the tools that make targets. Called only by `targetGuard`, which holds its lock and proves what it did. */
export interface TargetTool {
  /** The lock on the host; also the name of the tool in messages. */
  readonly name: string;
  /** The target itself, in its word; then parts of which none may be left after a removal. */
  readonly own: readonly [string, ...string[]];
  /** The part that holds the device under the target's name. */
  readonly holder: string;
  /** Parts of which one proves that an existing target is the volume's. */
  readonly proofs: { readonly make: readonly string[]; readonly remove: readonly string[] };
  /** Parts that a complete target needs. */
  readonly complete: readonly string[];
  inspect(target: ExportedTarget, call: Call): Promise<TargetState>;
  /** Makes what `before` lacks. */
  make(target: ExportedTarget, before: TargetState, call: Call): Promise<TargetState>;
  /** Removes the target. Throws "failed-precondition" while a node has a session, with nothing changed. */
  remove(target: ExportedTarget, before: TargetState, call: Call): Promise<TargetState>;
  /** Takes a target that does not exist out of what is saved: its removal may have been cut off before that. */
  forget(target: ExportedTarget, call: Call): Promise<void>;
  /** Makes the target show a device of at least `bytes` bytes. Absent where it does so by itself. */
  grow?(target: ExportedTarget, bytes: bigint, call: Call): Promise<void>;
}

const has = (state: TargetState, parts: readonly string[]): boolean => parts.some(part => state.parts.has(part));

/**
 * Changes targets with a tool: inspects, refuses what is not the volume's, changes, inspects again. One change at a time. `programs`: how
 * zfs is called on the host.
 */
export function targetGuard(host: StorageHost, programs: Pick<Programs, "zfs">, tool: TargetTool): TargetExporter {
  /** Runs while nothing else in this process uses the tool on this host. */
  const alone = <T>(call: Call, work: () => Promise<T>): Promise<T> => host.exclusive(tool.name, call.signal, work);

  return {
    async make(target, finished, call, note) {
      // Before the lock of the tool is taken.
      await awaitDevice(host, target, call, noteSteps(programs, target, note));
      await alone(call, async () => {
        const before = await tool.inspect(target, call);
        refuseForeign(target, before);
        if (finished && lacking(tool, before).length === 0) return;
        const isNoted = finished && !target.isReceived;
        if (before.parts.has(tool.own[0])) refuseUnproved(target, isNoted || has(before, tool.proofs.make));
        const parts = lacking(tool, await tool.make(target, before, call));
        if (parts.length > 0) throw incomplete(target, parts, "");
      });
    },
    remove: (target, call) =>
      alone(call, async () => {
        const before = await tool.inspect(target, call);
        if (!has(before, tool.own)) return tool.forget(target, call);
        if (!before.parts.has(tool.holder) && foreignIn(before) !== undefined) return;
        refuseForeign(target, before);
        if (before.parts.has(tool.own[0])) refuseUnproved(target, has(before, tool.proofs.remove));
        const after = await tool.remove(target, before, call);
        if (has(after, tool.own)) throw new CsiError("aborted", `${tool.name} did not remove ${target.qualifiedName}`);
      }),
    ...(tool.grow && {
      grow: (target: ExportedTarget, bytes: bigint, call: Call) =>
        alone(call, async () => tool.grow?.(target, bytes, call)),
    }),
  };
}

const lacking = ({ complete }: TargetTool, { parts }: TargetState): readonly string[] =>
  complete.filter(each => !parts.has(each));

const foreignIn = ({ parts }: TargetState): string | undefined => [...parts].find(each => each.startsWith("foreign "));

function refuseForeign(target: ExportedTarget, state: TargetState): void {
  const foreign = foreignIn(state);
  if (foreign !== undefined) throw foreignDevice(target, foreign.slice(8));
}

function refuseUnproved(target: ExportedTarget, proved: boolean): void {
  if (!proved && !bearsTag(target.backstore, target.guid)) throw unproved(target);
}

/** A step whose words are known before it runs. */
export type PlainStep = Step & { readonly argv: Argv };

/**
 * A step that makes a target, if the zvol is still the one that was read: under its lock, so that it is not removed meanwhile. Otherwise the target
 * of an old volume, whose nodes may still try to log in, would lead to a new one of its name.
 */
export const whileSame = (
  programs: Pick<Programs, "zfs">,
  { dataset, guid }: ExportedTarget,
  step: PlainStep,
): Step => ({
  ...step,
  argv: onlyIf(programs, dataset, guid, "type", step.argv),
});

/** A run of a tool under its lock on the host. Secrets go over its standard input, where they do not show. */
export const toolStep = (
  name: string,
  tool: string,
  argv: Argv,
  more: Omit<Step, "name" | "argv"> = {},
): PlainStep => ({
  ...more,
  name,
  argv: locked(tool, argv),
  onFailure: "go-on",
});
