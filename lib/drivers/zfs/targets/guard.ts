import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Argv, Output } from "../../../io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../io/script.ts";
import { inUse } from "../../failure.ts";
import { locked } from "../cli/steps.ts";
import { bearsTag } from "./names.ts";

/** A target or subsystem with one device. */
export interface ExportedTarget {
  /** IQN or NQN. */
  readonly qualifiedName: string;
  /** The part of the qualified name behind its basename; LIO's backstore has this name, too. */
  readonly backstore: string;
  /** Path of the zvol. */
  readonly device: string;
  /** Tells this zvol from every other one, also from a later one of the same name; empty when unknown. */
  readonly guid: string;
}

/** What a host has of a target. */
export interface TargetState {
  /** Its parts, as the tool calls them; "foreign" and another device's path; "other" and another target's LUN of its device. */
  readonly parts: ReadonlySet<string>;
  /** Throws "unavailable" while a change would lose targets that the host has not restored yet. */
  refuseChange?(): void;
  /** Saves the removal of a target that is gone already, where an earlier call could not. */
  forget?(): Promise<void>;
}

/** What a host has of a target after a change. */
export interface TargetChange {
  readonly parts: ReadonlySet<string>;
  /** What the tool printed. */
  readonly output?: Output | undefined;
  /** Makes the change survive a restart of the host. Throws "unavailable". */
  save?(): Promise<void>;
}

/** One of the tools that make targets. Called only by `TargetGuard`, which holds its lock and proves what it did. */
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
  make(target: ExportedTarget, before: TargetState, call: Call): Promise<TargetChange>;
  /** Removes the target. Throws "failed-precondition" while a node has a session, with nothing changed. */
  remove(target: ExportedTarget, before: TargetState, call: Call): Promise<TargetChange>;
  /** The qualified names of all targets that nodes can reach, in one round trip. Absent where that takes more. */
  exportedNames?(call: Call): Promise<ReadonlySet<string>>;
  /** Makes the target show a device of at least `bytes` bytes. Absent where it does so by itself. */
  grow?(target: ExportedTarget, bytes: bigint, call: Call): Promise<void>;
}

const has = (state: Pick<TargetState, "parts">, parts: readonly string[]): boolean =>
  parts.some(part => state.parts.has(part));

export type TargetGuard = ReturnType<typeof targetGuard>;

/** Changes targets with a tool: inspects, refuses what is not the volume's, changes, inspects again, saves. One change at a time. */
export function targetGuard(host: StorageHost, tool: TargetTool) {
  /** Runs while nothing else in this process uses the tool on this host. */
  const alone = <T>(call: Call, work: () => Promise<T>): Promise<T> => host.exclusive(tool.name, call.signal, work);

  /** Waits before the lock of the tool is taken. */
  async function awaitDevice({ device }: ExportedTarget, { signal }: Call): Promise<void> {
    const outputs = await host.script({ steps: [deviceStep(device)] }, signal);
    if (outputs.get("device")?.exitCode === 0) return;
    throw new CsiError("unavailable", `the device ${device} did not appear within 10 s`);
  }

  return {
    ...{ tool, alone },
    /**
     * Makes a target, or the parts that it lacks. `finished`: it was complete before, so that a complete one needs nothing. Throws
     * "failed-precondition" for a name that another device has, "unavailable" when the target does not become complete.
     */
    async make(target: ExportedTarget, finished: boolean, call: Call): Promise<void> {
      await awaitDevice(target, call);
      await alone(call, async () => {
        const before = await tool.inspect(target, call);
        refuseForeign(target, before);
        if (finished && lacking(tool, before).length === 0) return;
        if (before.parts.has(tool.own[0])) refuseUnproved(target, finished || has(before, tool.proofs.make));
        before.refuseChange?.();
        const after = await tool.make(target, before, call);
        refuseLacking(target, lacking(tool, after), after.output);
        await after.save?.();
      });
    },
    /**
     * Removes a target with its device; success when there is none, or only another device under its name. Throws as `make`,
     * "failed-precondition" while a node has a session, with nothing changed, and "aborted" when it is still there.
     */
    remove: (target: ExportedTarget, call: Call): Promise<void> =>
      alone(call, async () => {
        const before = await tool.inspect(target, call);
        if (!has(before, tool.own)) return before.forget?.();
        if (!before.parts.has(tool.holder) && foreignIn(before) !== undefined) return;
        refuseForeign(target, before);
        refuseOthers(target, before);
        if (before.parts.has(tool.own[0])) refuseUnproved(target, has(before, tool.proofs.remove));
        before.refuseChange?.();
        const after = await tool.remove(target, before, call);
        if (has(after, tool.own)) throw new CsiError("aborted", `${tool.name} did not remove ${target.qualifiedName}`);
        await after.save?.();
      }),
  };
}

const lacking = ({ complete }: TargetTool, { parts }: TargetChange): readonly string[] =>
  complete.filter(each => !parts.has(each));

const foreignIn = ({ parts }: TargetState): string | undefined => [...parts].find(each => each.startsWith("foreign "));

/** Names of targets are the whole host's: a target that shows another device belongs to someone else. */
function refuseForeign({ backstore, qualifiedName, device }: ExportedTarget, state: TargetState): void {
  const foreign = foreignIn(state);
  if (foreign === undefined) return;
  throw new CsiError(
    "failed-precondition",
    `"${backstore}" (${qualifiedName}) exports another device, ${foreign.slice(8)}, not ${device}; see namePrefix and nameSuffix`,
  );
}

/** Neither its device nor a name that only this volume can have proves the target to be the volume's. */
function refuseUnproved({ backstore, qualifiedName, device, guid }: ExportedTarget, proved: boolean): void {
  if (proved || bearsTag(backstore, guid)) return;
  throw new CsiError(
    "failed-precondition",
    `the host has a target ${qualifiedName} that does not lead to ${device}: csimux did not finish or did not make it; remove it on the host if it is not needed`,
  );
}

/** A backstore of another target stays: its nodes would lose the disk. */
function refuseOthers({ backstore, device }: ExportedTarget, { parts }: TargetState): void {
  const other = [...parts].find(each => each.startsWith("other "));
  if (other === undefined) return;
  throw new CsiError(
    "failed-precondition",
    `the backstore ${backstore} of ${device} is also ${other.slice(6)}, which csimux did not make; remove that LUN first`,
  );
}

/** Names the missing parts, and the line in which the tool says why, if it does. */
function refuseLacking({ qualifiedName }: ExportedTarget, parts: readonly string[], output: Output | undefined): void {
  if (parts.length === 0) return;
  const lines = `${output?.stderr ?? ""}\n${output?.stdout ?? ""}`.split("\n");
  const line =
    lines.find(each => /error|not |cannot|could|invalid|refused|no such/i.test(each)) ?? output?.stderr.split("\n")[0];
  const why = line?.slice(0, 300) || "see the targets of the host";
  throw new CsiError("unavailable", `the target ${qualifiedName} lacks: ${parts.join(", ")}; ${why}`);
}

/** The exit code of a step "close" that found sessions and left everything as it was; its lines name the hosts. */
export const sessionsFound = 3;

/** Throws "failed-precondition" when "close" found sessions, "unavailable" when it failed. */
export function refuseSessions({ qualifiedName }: ExportedTarget, outputs: Outputs): void {
  const output = outputs.get("close");
  if (output?.exitCode === sessionsFound) {
    const hosts = output.stdout.split("\n").filter(line => line !== "");
    throw inUse(`the target ${qualifiedName}`, [...new Set(hosts)]);
  }
  succeeded(outputs, "close");
}

/** The last line of each answer about targets: an exit code of 0 does not prove that every line has arrived. */
export const lastLine = "end";

/** The lines of an answer about targets. Throws "unavailable" when the step failed, or the answer does not end with `lastLine`. */
export function linesOf(outputs: Outputs, name: string): ReadonlySet<string> {
  const lines = succeeded(outputs, name).stdout.split("\n");
  if (lines.pop() === "" && lines.pop() === lastLine) return new Set(lines);
  throw new CsiError("unavailable", "cannot inspect the target: a part of the answer is missing");
}

function succeeded(outputs: Outputs, name: string): Output {
  const output = outputs.get(name);
  if (output?.exitCode === 0) return output;
  const failed = [...outputs.values()].find(each => each.exitCode !== 0);
  const why = failed?.stderr.split("\n")[0] ?? "no answer";
  throw new CsiError("unavailable", `cannot inspect the target: ${why}`);
}

/** A step of these words. */
export const step = (name: string, words: readonly string[], more: Partial<Step> = {}): Step => {
  const [first = "sh", ...rest] = words;
  return { name, argv: [first, ...rest], ...more };
};

/** Waits up to ten seconds for a device, which udev makes a moment after the zvol. */
export const deviceStep = (device: string): Step =>
  step("device", [
    ...["sh", "-c", 'n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done', "sh"],
    device,
  ]);

/** A run of a tool under its lock on the host. Secrets go over its standard input, where they do not show. */
export const toolStep = (name: string, tool: string, argv: Argv, more: Partial<Step> = {}): Step =>
  step(name, locked(tool, argv), { ...more, onFailure: "go-on" });
