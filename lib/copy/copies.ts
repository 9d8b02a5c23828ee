import { randomUUID } from "node:crypto";
import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { CopySettings } from "../core/proxy.ts";
import { within } from "../core/time.ts";
import type { CopyByStream, CopyWork, UseDriver } from "./copy-work.ts";
import { CopiedBytes, type CopiesView } from "./figures.ts";
import { LeaseWatch } from "./lease.ts";
import { OneCopy } from "./one-copy.ts";
import type { CopyRecord } from "./record.ts";
import { type CopyTimes, usualTimes } from "./times.ts";
import { Turns } from "./turns.ts";

/** What the copies of a process need. */
export interface CopiesParts {
  readonly use: UseDriver;
  readonly stream: CopyByStream;
  /** The settings of the main file at present. */
  readonly settings: () => CopySettings;
  readonly log: Log;
  readonly times?: CopyTimes;
}

/**
 * The copies that run in this process. It knows nothing that it may not lose: what a copy is, and how far it got, is in the record on
 * its target.
 */
export class Copies {
  readonly times: CopyTimes;
  readonly settings: () => CopySettings;
  /** The name of this process in records. */
  readonly self = randomUUID();
  readonly #parts: CopiesParts;
  readonly #turns: Turns;
  readonly #watch: LeaseWatch;
  readonly #copied = new CopiedBytes();
  readonly #running = new Map<string, { readonly copy: OneCopy; readonly source: string }>();
  #isStopping = false;

  constructor(parts: CopiesParts) {
    this.#parts = parts;
    this.times = parts.times ?? usualTimes;
    this.settings = parts.settings;
    this.#turns = new Turns(parts.settings);
    this.#watch = new LeaseWatch(this.times);
  }

  /** The copy to this volume that runs or waits in this process. */
  running(target: Handle): OneCopy | undefined {
    return this.#running.get(encodeHandle(target))?.copy;
  }

  /** What runs and waits in this process, and the bytes that have arrived since it started. Sends no request to any storage system. */
  view(): CopiesView {
    return { running: [...this.#running.values()].map(({ copy }) => copy.view), copied: this.#copied.all() };
  }

  /** Why nothing may change about an object: it is the target or the source of a copy that runs here. */
  busy(handle: Handle): string | undefined {
    const text = encodeHandle(handle);
    const target = this.#running.get(text);
    if (target) return target.copy.text;
    return [...this.#running.values()].find(({ source }) => source === text)?.copy.text;
  }

  /** Who works on the copy with this record: no process ("free"), one that has ended ("gone"), or another one ("taken"). */
  owner(target: Handle, record: CopyRecord): "free" | "gone" | "taken" {
    if (this.running(target)) return "taken";
    return this.#watch.judge(encodeHandle(target), record, this.self);
  }

  /** Begins or continues a copy; the caller has looked into its record. One that runs already is returned. Throws "unavailable" at the end. */
  start(work: CopyWork): OneCopy {
    if (this.#isStopping) throw new CsiError("unavailable", "csimux is stopping; retry");
    const target = encodeHandle(work.target);
    const known = this.#running.get(target);
    if (known) return known.copy;
    const { use, stream, log, settings } = this.#parts;
    const own = { turns: this.#turns, times: this.times, self: this.self, copied: this.#copied };
    const shared = { use, stream, log, ...own };
    const copy = new OneCopy(work, target, { ...shared, idleMs: () => settings().idleMs });
    this.#running.set(target, { copy, source: encodeHandle(work.source) });
    void copy.done.finally(() => {
      this.#running.delete(target);
      this.#watch.forget(target);
    });
    return copy;
  }

  /** Interrupts all copies, and waits up to `limitMs` milliseconds until they have left their records. */
  async stop(limitMs: number): Promise<void> {
    this.#isStopping = true;
    const all = [...this.#running.values()].map(({ copy }) => copy);
    for (const copy of all)
      copy.stop(new CsiError("unavailable", "csimux is stopping; the copy continues with the next request"));
    await within(Promise.all(all.map(({ done }) => done)), limitMs);
  }
}
