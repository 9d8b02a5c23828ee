import { CsiError } from "../../../core/errors.ts";
import { isMapping, type Mapping } from "../../../core/mapping.ts";
import type { Outputs } from "../../../io/script.ts";
import { inUse } from "../../failure.ts";
import { absentDevice, type ExportedTarget, foreignDevice, incomplete, unproved } from "./exporter.ts";

/** What the program on the host has answered: it is done, or why not. */
export interface HostAnswer {
  readonly refused: string | undefined;
  /** More of the reason, by its names in host/*.py. */
  readonly more: Readonly<Record<string, unknown>>;
  /** Values that the kernel did not take, and that it can do without. */
  readonly ignored: readonly string[];
}

const texts = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];

const textOf = (value: unknown): string => (typeof value === "string" ? value.slice(0, 300) : "");

function parsed(text: string): unknown {
  try {
    return text.endsWith("\n") ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

/** The answer of a step. Throws "unavailable" when there is none, or it is not whole. */
export function answerOf(outputs: Outputs, name: string): HostAnswer {
  const output = outputs.get(name);
  const answer = output?.exitCode === 0 ? parsed(output.stdout) : undefined;
  if (!isMapping(answer) || !("done" in answer || "lacking" in answer || "refused" in answer)) {
    const line = output?.stderr.trim().split("\n").at(-1)?.slice(0, 300) || "a part of the answer is missing";
    throw new CsiError("unavailable", `cannot inspect the target with python3: ${line}`);
  }
  const refused = "refused" in answer ? textOf(answer["refused"]) : undefined;
  if (refused === undefined && answer["done"] !== true && !isMapping(answer["lacking"]))
    throw new CsiError("unavailable", "cannot inspect the target with python3: its answer says nothing");
  return { refused, more: answer, ignored: texts(answer["ignored"]) };
}

/** What a check found, by qualified name. */
export function lackingOf({ refused: reason, more }: HostAnswer): ReadonlyMap<string, readonly string[]> {
  if (reason !== undefined) throw general(reason, more);
  const lacking = isMapping(more["lacking"]) ? more["lacking"] : {};
  return new Map(Object.entries(lacking).map(([name, parts]) => [name, texts(parts)]));
}

/** Why the work on a target was refused. */
export function refused(target: ExportedTarget, { refused: reason = "", more }: HostAnswer): CsiError {
  const { qualifiedName, backstore, device } = target;
  if (reason === "foreign") return foreignDevice(target, textOf(more["device"]));
  if (reason === "unproved") return unproved(target);
  if (reason === "absent") return absentDevice(target);
  if (reason === "lacking") return incomplete(target, texts(more["parts"]), textOf(more["why"]));
  if (reason === "sessions") return inUse(`the target ${qualifiedName}`, [...new Set(texts(more["by"]))]);
  if (reason === "remains") return new CsiError("aborted", `the host still has ${qualifiedName}; retry the call`);
  // A backstore of another target stays: its nodes would lose the disk.
  if (reason === "others")
    return new CsiError(
      "failed-precondition",
      `the backstore ${backstore} of ${device} is also ${textOf(more["lun"])}, which csimux did not make; remove that LUN first`,
    );
  if (reason === "unsettled")
    return new CsiError(
      "aborted",
      `a host that was connected to ${qualifiedName} may be reconnecting and still use the disk; retry in ${Number(more["seconds"])} s`,
    );
  return general(reason, more);
}

/** Why a target's volume is not given to a claim. */
export function notGiven(target: ExportedTarget, answer: HostAnswer): CsiError {
  if (answer.refused !== "sessions") return refused(target, answer);
  const by = [...new Set(texts(answer.more["by"]))].slice(0, 5).join(", ").slice(0, 400);
  const text = `the target ${target.qualifiedName} is in use: ${by} is still connected; the claim gets the volume once that has ended`;
  return new CsiError("failed-precondition", text);
}

/** What hinders work on every target of the host. */
function general(reason: string, more: Mapping): CsiError {
  const path = textOf(more["path"]);
  const why = textOf(more["why"]);
  const messages: Readonly<Record<string, string>> = {
    locked: `the lock ${textOf(more["lock"])} is held by ${textOf(more["by"]) || "another process"}: end it, or leave the targetcli or nvmetcli that a person has open there`,
    saved: `the saved configuration ${path} cannot be changed: ${why}; nothing in it was changed. Repair it on the host (targetcli and csimux keep backups in the folder backup), or move it away`,
    unrestored: `${path} does not exist: the host has not restored its NVMe subsystems yet`,
    left: "the call ended while it waited for the lock of the host",
    failed: `the kernel of the host refused the change of its targets: ${why}`,
  };
  return new CsiError("unavailable", messages[reason] ?? `the host refused the change of its targets: ${reason}`);
}
