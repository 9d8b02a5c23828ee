import type { CopyRecord } from "./record.ts";

/**
 * What is asked of a copy: CreateVolume ("create") and DeleteVolume of its target; the commands of `csimux copies` ("pass", "finish", "cancel"); the hourly clean-up.
 */
type CopyAsked = "create" | "delete" | "pass" | "finish" | "cancel" | "clean-up";

/** What is known of a copy. */
interface KnownCopy {
  /** Undefined: there is none. */
  readonly record: Pick<CopyRecord, "state" | "pass" | "frozen"> | undefined;
  /** Whether the target is a complete volume, for callers that know. */
  readonly isVolume?: boolean;
  /** Which process works on it: none ("none"), one that has ended ("expired"), or another one ("held"). */
  readonly lease: "none" | "expired" | "held";
  /** Whether it was asked for lately, for "clean-up". */
  readonly isWanted?: boolean;
}

/**
 * What to do next:
 * - "begin": protect a snapshot of the source, and create the target with its record;
 * - "continue": copy what the present pass lacks;
 * - "next-pass": take a new snapshot of the source, and copy what has changed;
 * - "finish": make the target the volume;
 * - "answer": the volume exists; release the source if a record is left;
 * - "release": the copy is over; the source is released, the record removed, and what is at the target stays;
 * - "remove": the same, and the target goes, unless it has become the volume;
 * - "mark": mark it as cancelled;
 * - "wait": another process works on it;
 * - "nothing": there is nothing to do;
 * - "refuse": what is asked is impossible, and the reason is what is known.
 */
type CopyStep =
  | "begin"
  | "continue"
  | "next-pass"
  | "finish"
  | "answer"
  | "release"
  | "remove"
  | "mark"
  | "wait"
  | "nothing"
  | "refuse";

/** Whether the last pass began before the source was stopped, so that the target lacks what was written after that. */
const isTooEarly = ({ frozen, pass }: Pick<CopyRecord, "pass" | "frozen">): boolean =>
  frozen !== undefined && pass < frozen;

/** Decides what happens to a copy, for all who ask. Pure. */
export function nextStep(asked: CopyAsked, known: KnownCopy): CopyStep {
  const { record, isVolume, lease } = known;
  switch (asked) {
    case "create":
      if (isVolume) return "answer";
      if (!record) return "begin";
      if (record.state === "cancelled") return "remove";
      return lease === "held" ? "wait" : record.state === "copying" ? "continue" : "finish";
    case "delete":
      if (!record) return "nothing";
      if (lease === "held") return "wait";
      return record.state === "finished" ? "release" : "remove";
    case "pass":
      if (record?.state !== "copying" && record?.state !== "ready") return "refuse";
      if (lease === "held") return "wait";
      return record.state === "copying" ? "continue" : "next-pass";
    case "finish":
      if (!record) return "answer";
      if (record.state === "finished") return "finish";
      return record.state === "ready" && !isTooEarly(record) ? "finish" : "refuse";
    case "cancel":
      if (record?.state === "finished" || isVolume) return "refuse";
      if (!record) return "nothing";
      if (record.state !== "cancelled") return "mark";
      return lease === "held" ? "wait" : "remove";
    case "clean-up":
      if (!record || lease === "held") return "nothing";
      if (record.state === "finished") return "release";
      return known.isWanted ? "nothing" : "remove";
  }
}
