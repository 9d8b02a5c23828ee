import { type FSWatcher, watch } from "node:fs";

/** Intervals of the checks, in milliseconds. */
export interface WatchTimes {
  /** The delay between a change and its check: a Secret is replaced in several steps. */
  readonly settle: number;
  /** The interval of checks without events: network file systems do not report changes (inotify(7), "Limitations"). */
  readonly slow: number;
  /** The same while the folder is missing. */
  readonly absent: number;
}

const usual: WatchTimes = { settle: 200, slow: 60_000, absent: 5_000 };

/** The folder to watch. */
export interface WatchedFile {
  readonly path: string;
  /** Distinguishes this folder from another one at the same path; undefined if there is none. */
  mark(): Promise<string | undefined>;
}

/** Calls `look` immediately, soon after each change in a folder, and at an interval; never concurrently. */
export class FolderWatch {
  readonly #folder: WatchedFile;
  readonly #look: () => Promise<void>;
  readonly #times: WatchTimes;
  #watcher: FSWatcher | undefined;
  #mark: string | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #due = Number.POSITIVE_INFINITY;
  #looking = false;
  #again = false;
  #stopped = false;

  /** `look` must not reject. */
  constructor(folder: WatchedFile, look: () => Promise<void>, times: Partial<WatchTimes> = {}) {
    this.#folder = folder;
    this.#look = look;
    this.#times = { ...usual, ...times };
  }

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#close();
  }

  async #run(): Promise<void> {
    if (this.#stopped) return;
    this.#looking = true;
    this.#again = false;
    this.#due = Number.POSITIVE_INFINITY;
    await this.#follow();
    await this.#look();
    this.#looking = false;
    const { settle, slow, absent } = this.#times;
    this.#schedule(this.#again ? settle : this.#mark === undefined ? absent : slow);
  }

  /** Watches the present folder, which may have replaced an earlier one. */
  async #follow(): Promise<void> {
    const mark = await this.#folder.mark();
    if (this.#stopped || (mark === this.#mark && (this.#watcher || mark === undefined))) return;
    this.#close();
    this.#mark = mark;
    if (mark === undefined) return;
    try {
      this.#watcher = watch(this.#folder.path, { persistent: false }, () => this.#changed());
      this.#watcher.on("error", () => this.#close());
    } catch {
      // If watching fails, for example because of the system's limit of watches, the interval remains.
    }
  }

  #changed(): void {
    if (this.#looking) this.#again = true;
    else this.#schedule(this.#times.settle);
  }

  /** Schedules the next check in `ms` milliseconds, or earlier if it was due before. */
  #schedule(ms: number): void {
    const due = performance.now() + ms;
    if (this.#stopped || due >= this.#due) return;
    this.#due = due;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), ms);
    this.#timer.unref();
  }

  #close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}
