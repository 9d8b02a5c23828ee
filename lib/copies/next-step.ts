import type { CopyRecord } from "./record.ts";

/**
 * What is done with a copy: CreateVolume ("create") and DeleteVolume of its target; the commands of `csimux move` and `csimux copies` ("pass", "finish",
 * "cancel"); the hourly clean-up.
 */
type CopyOperation = "create" | "delete" | "pass" | "finish" | "cancel" | "clean-up";

/** What is known of a copy. */
export interface KnownCopy {
  /** Undefined: there is none. */
  readonly record: Pick<CopyRecord, "state" | "pass" | "frozen"> | undefined;
  /** Whether the target is a complete volume: the process that made it so may have ended before it wrote that. */
  readonly isVolume: boolean;
  /** Whether a ready target, or the volume, is there at all (`CopyTarget.hasContent`), for "create" and "finish". */
  readonly hasContent: boolean;
  /** Which process works on it: none ("none"), one that has ended ("expired"), or another one ("held"). */
  readonly lease: "none" | "expired" | "held";
  /** Whether the last request for it is not long ago, for "clean-up". */
  readonly isWanted?: boolean;
}

/**
 * What to do next:
 * - "begin": protect a snapshot of the source, and create the target with its record;
 * - "continue": copy what the present pass lacks;
 * - "next-pass": take a new snapshot of the source, and copy what has changed;
 * - "finish": make the target the volume;
 * - "answer": with the volume, which exists or was never copied. The protection of the source ends then, and a record that
 *   is left is removed;
 * - "forget": the copy is over; the protection of the source ends, the record is removed, and what is at the target stays;
 * - "remove": the same, and the target goes, unless it has become the volume. "cancel" keeps the record of a claim, marked, to refuse its next request;
 * - "mark": mark it as cancelled;
 * - "wait": another process works on it: "cancel" waits, the others end with "aborted" and are repeated;
 * - "nothing": there is nothing to do;
 * - "refuse": what is asked is impossible, and the reason is what is known.
 */
type CopyStep =
  | "begin"
  | "continue"
  | "next-pass"
  | "finish"
  | "answer"
  | "forget"
  | "remove"
  | "mark"
  | "wait"
  | "nothing"
  | "refuse";

/** Whether the last pass began before the source was stopped, so that the target lacks what was written after that. */
const isTooEarly = ({ frozen, pass }: Pick<CopyRecord, "pass" | "frozen">): boolean =>
  frozen !== undefined && pass < frozen;

/**
 * Decides what happens to a copy. Pure. Three things are decided by their callers: that a copy begins (`CopyCreation`, which has found neither volume
 * nor record), that one which the settings forbid ends (`refuseForbidden`), and that an attempt was the last one (`endsCopy`). The rows are what a process can find on the target's storage, also after a crash at
 * any point; the lease is "free" if it is "none" or "expired". A record that is marked as cancelled counts as cancelled, unless it is finished.
 *
 * | record    | lease | create   | delete  | pass      | finish | cancel  | clean-up |
 * | --------- | ----- | -------- | ------- | --------- | ------ | ------- | -------- |
 * | none      | free  | begin    | nothing | refuse    | answer | nothing | nothing  |
 * | copying   | free  | continue | remove  | continue  | refuse | mark    | remove   |
 * | copying   | held  | wait     | wait    | wait      | refuse | mark    | nothing  |
 * | ready     | free  | finish   | remove  | next-pass | finish | mark    | remove   |
 * | ready     | held  | wait     | wait    | wait      | wait   | mark    | nothing  |
 * | too early | free  | finish   | remove  | next-pass | refuse | mark    | remove   |
 * | too early | held  | wait     | wait    | wait      | refuse | mark    | nothing  |
 * | gone      | free  | remove   | remove  | next-pass | remove | mark    | remove   |
 * | gone      | held  | wait     | wait    | wait      | wait   | mark    | nothing  |
 * | finished  | free  | forget   | forget  | refuse    | answer | refuse  | forget   |
 * | finished  | held  | wait     | wait    | refuse    | wait   | refuse  | nothing  |
 * | cancelled | free  | remove   | remove  | refuse    | refuse | remove  | remove   |
 * | cancelled | held  | wait     | wait    | refuse    | refuse | wait    | nothing  |
 * | volume    | free  | answer   | forget  | refuse    | answer | refuse  | forget   |
 * | volume    | held  | answer   | wait    | refuse    | wait   | refuse  | nothing  |
 *
 * "too early": ready, but its pass began before the source was stopped. "gone": ready, but its removal was interrupted
 * between target and record. "volume": the target is the volume, whatever the record says; without a record, "delete" and
 * "clean-up" have nothing to do, and "pass" and "cancel" are refused. "clean-up" leaves what `isWanted`, except what it forgets.
 *
 * When: a lease is free at once if its holder gave it up, or was an earlier process with the locked id of this one; otherwise `takeoverAfter`
 * (90 s) after this process has first seen the last heartbeat of a holder that was killed. So a dead process delays requests by that at most,
 * and the clean-up until its next run; nothing is removed while a live one works on it.
 *
 * From what: "continue" uses what is in the target: a stream continues at its resume token, rsync with the files that are complete, of which it
 * compares the content, because the pause may have been followed by a loss of power. After a holder that was killed, or perhaps only suspended and may still write, rsync begins in an empty target (CopyRecord.unfenced);
 * only an earlier process with the locked id of this one is proved to have ended. "restore" always begins in an empty one. "next-pass" sends what changed since the last snapshot. "finish" repeats the
 * driver's steps, each of which is done or not; one that was suspended before its last step finds out there (`StillHeld`).
 *
 * In which order: a record is written before its target is made, and removed after it, so a target without a record is not a copy, and a record
 * without a target is one that has just begun or was just removed. The driver's part (drivers/copying.ts): `begin` makes what is missing of both
 * and never touches a volume; `note` is durable; `folder` and `empty` are of the target only; `flush` comes before a record says "ready".
 *
 * What is released: the source's snapshot of the last pass stays protected as long as the record exists, except that of a cancelled claim. After "finish" and with "forget", the
 * protection ends first and the record goes last; with "remove", first the target, then the record, then the protection. The next clean-up
 * repeats what fails, and ends the protection of a snapshot without a record `keepSeconds` after that was taken.
 */
export function nextStep(operation: CopyOperation, known: KnownCopy): CopyStep {
  const { record, isVolume, hasContent, lease } = known;
  const isHeld = lease === "held";
  switch (operation) {
    case "create":
      if (isVolume) return "answer";
      if (!record) return "begin";
      if (isHeld) return "wait";
      if (record.state === "ready" && !hasContent) return "remove";
      return ({ copying: "continue", ready: "finish", finished: "forget", cancelled: "remove" } as const)[record.state];
    case "delete":
      if (!record) return "nothing";
      if (isHeld) return "wait";
      return isVolume || record.state === "finished" ? "forget" : "remove";
    case "pass":
      // The target of such a record is gone; nothing may be written into the volume, which may be in use.
      if (isVolume) return "refuse";
      if (record?.state !== "copying" && record?.state !== "ready") return "refuse";
      if (isHeld) return "wait";
      return record.state === "copying" ? "continue" : "next-pass";
    case "finish":
      if (!record) return "answer";
      if (!isVolume && (record.state === "copying" || record.state === "cancelled")) return "refuse";
      if (!isVolume && record.state === "ready" && hasContent && isTooEarly(record)) return "refuse";
      if (isHeld) return "wait";
      if (isVolume || record.state === "finished") return "answer";
      return hasContent ? "finish" : "remove";
    case "cancel":
      if (record?.state === "finished" || isVolume) return "refuse";
      if (!record) return "nothing";
      if (record.state !== "cancelled") return "mark";
      return isHeld ? "wait" : "remove";
    case "clean-up":
      if (!record || isHeld) return "nothing";
      if (isVolume || record.state === "finished") return "forget";
      return known.isWanted ? "nothing" : "remove";
  }
}
