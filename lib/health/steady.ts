import type { Finding } from "./finding.ts";
import { meaningOf, type Reason } from "./reasons.ts";

/** A condition that holds. */
export interface Condition extends Finding {
  /** For how long, in milliseconds. */
  readonly ms: number;
}

/** A condition that has come or gone. */
export interface Change extends Finding {
  readonly subject: string;
  readonly came: boolean;
}

interface Mark {
  holds: boolean;
  message: string;
  /** When it came. */
  since: number;
  /** Since when every look has found the opposite of what holds; undefined: the last one agreed. */
  turning: number | undefined;
}

/**
 * What is wrong with each subject, without flapping: a cause that one look finds is believed when a later look, at least
 * `holdMs` after, finds it still, and it is believed to be gone in the same way. A look that failed is not told here at all.
 */
export class Steady {
  readonly #holdMs: number;
  readonly #now: () => number;
  readonly #marks = new Map<string, Map<Reason, Mark>>();

  /** `now` gives milliseconds of a clock that never jumps. */
  constructor(holdMs: number, now: () => number = () => performance.now()) {
    this.#holdMs = holdMs;
    this.#now = now;
  }

  /**
   * One look at a subject: all that is wrong with it, and what has come or gone by that. `adopt`: it is the first look since the
   * process began, so how long it has been so is not known, and what was told before a restart must not seem to be gone. A loss
   * is not believed at first sight all the same.
   */
  see(subject: string, found: readonly Finding[], adopt = false): readonly Change[] {
    const marks = this.#marks.get(subject) ?? new Map<Reason, Mark>();
    const now = this.#now();
    const changes: Change[] = [];
    for (const { reason, message } of found) {
      const mark = marks.get(reason) ?? { holds: false, message, since: now, turning: undefined };
      marks.set(reason, mark);
      mark.message = message;
      if (this.#turned(mark, true, now, adopt && meaningOf(reason).severity !== "data-loss"))
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

  /** What holds for a subject now. */
  of(subject: string): readonly Condition[] {
    const now = this.#now();
    return [...(this.#marks.get(subject) ?? [])].flatMap(([reason, { holds, message, since }]) =>
      holds ? [{ reason, message, ms: now - since }] : [],
    );
  }

  /** Subjects for which something holds, sorted. */
  subjects(): readonly string[] {
    return this.watched().filter(subject => this.of(subject).length > 0);
  }

  /** Subjects that a next look has to say something about, sorted: something holds, or may be about to. */
  watched(): readonly string[] {
    return [...this.#marks.keys()].sort();
  }

  /** The subject is no more. */
  forget(subject: string): void {
    this.#marks.delete(subject);
  }

  /** Whether the mark now says the opposite of what it said. */
  #turned(mark: Mark, seen: boolean, now: number, adopt: boolean): boolean {
    if (mark.holds === seen) {
      mark.turning = undefined;
      return false;
    }
    mark.turning ??= now;
    if (!adopt && now - mark.turning < this.#holdMs) return false;
    mark.holds = seen;
    mark.turning = undefined;
    mark.since = now;
    return true;
  }
}
