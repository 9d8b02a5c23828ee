import type { Finding } from "./finding.ts";
import { type Reason, reasonText } from "./reasons.ts";

/** An active condition. */
export interface Condition extends Finding {
  /** Its age in milliseconds. */
  readonly ms: number;
}

/** A condition that was raised or cleared. */
export interface Change extends Finding {
  readonly subject: string;
  readonly came: boolean;
}

interface TrackedCause {
  holds: boolean;
  message: string;
  /** When it was raised or cleared last. */
  since: number;
  /** Since when all checks contradict the present state; undefined: the last one agreed. */
  pendingSince: number | undefined;
}

const monotonic = (): number => performance.now();

/**
 * Debounces the conditions of each subject: a cause is raised when a later check, at least `holdMs` after the first,
 * still finds it, and is cleared in the same way. Failed checks are not passed in.
 */
export class ConditionTracker {
  readonly #holdMs: number;
  readonly #now: () => number;
  readonly #marks = new Map<string, Map<Reason, TrackedCause>>();

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(holdMs: number, now: () => number = monotonic) {
    this.#holdMs = holdMs;
    this.#now = now;
  }

  /**
   * Records one check of a subject with all its findings; returns what was raised or cleared. `adopt`: it is the first
   * check since the process started, so findings are raised at once to avoid that a condition seems to end with a
   * restart. Data loss is still confirmed by a second check.
   */
  record(subject: string, found: readonly Finding[], adopt = false): readonly Change[] {
    const marks = this.#marks.get(subject) ?? new Map<Reason, TrackedCause>();
    const now = this.#now();
    const changes: Change[] = [];
    for (const { reason, message } of found) {
      const mark = marks.get(reason) ?? { holds: false, message, since: now, pendingSince: undefined };
      marks.set(reason, mark);
      mark.message = message;
      if (this.#turned(mark, true, now, adopt && reasonText(reason).severity !== "data-loss"))
        changes.push({ subject, reason, message, came: true });
    }
    for (const [reason, mark] of marks) {
      if (found.some(each => each.reason === reason)) continue;
      if (this.#turned(mark, false, now, adopt)) changes.push({ subject, reason, message: mark.message, came: false });
      if (!mark.holds) marks.delete(reason);
    }
    if (marks.size > 0) this.#marks.set(subject, marks);
    else this.#marks.delete(subject);
    return changes;
  }

  /** The active conditions of a subject. */
  of(subject: string): readonly Condition[] {
    const now = this.#now();
    return [...(this.#marks.get(subject) ?? [])].flatMap(([reason, { holds, message, since }]) =>
      holds ? [{ reason, message, ms: now - since }] : [],
    );
  }

  /** Subjects with an active condition, sorted. */
  subjects(): readonly string[] {
    return this.tracked().filter(subject => this.of(subject).length > 0);
  }

  /** Subjects that the next check must include, sorted: a condition is active or may be about to be raised. */
  tracked(): readonly string[] {
    return [...this.#marks.keys()].sort();
  }

  /** Forgets a subject that no longer exists. */
  forget(subject: string): void {
    this.#marks.delete(subject);
  }

  /** Records one observation; returns whether it raised or cleared the condition. */
  #turned(mark: TrackedCause, seen: boolean, now: number, adopt: boolean): boolean {
    if (mark.holds === seen) {
      mark.pendingSince = undefined;
      return false;
    }
    mark.pendingSince ??= now;
    if (!adopt && now - mark.pendingSince < this.#holdMs) return false;
    mark.holds = seen;
    mark.pendingSince = undefined;
    mark.since = now;
    return true;
  }
}
