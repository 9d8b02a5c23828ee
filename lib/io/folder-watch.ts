import { type FSWatcher, watch } from "node:fs";

/** When files are looked at; all in milliseconds. */
export interface WatchTimes {
  /** From a change to the look at it: a Secret is exchanged in several steps. */
  readonly settle: number;
  /** Between two looks when nothing is heard: network file systems tell nobody about changes (inotify(7), "Limitations"). */
  readonly slow: number;
  /** The same while the folder is not there. */
  readonly absent: number;
}

const usual: WatchTimes = { settle: 200, slow: 60_000, absent: 5_000 };

/** What is looked at. */
export interface Watched {
  readonly path: string;
  /** Something that differs between this folder and another one at the same path; undefined when there is none. */
  mark(): Promise<string | undefined>;
}

/** Calls `look` at once, soon after each change in a folder, and now and then; never twice at the same time. */
export class FolderWatch {
  readonly #folder: Watched;
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
  constructor(folder: Watched, look: () => Promise<void>, times: Partial<WatchTimes> = {}) {
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

  /** Watches the folder that is there now, which may be another one than before. */
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
      // Without a watcher, because there are too many on this machine for example, the slow look remains.
    }
  }

  #changed(): void {
    if (this.#looking) this.#again = true;
    else this.#schedule(this.#times.settle);
  }

  /** The next look is in so many milliseconds, or earlier when that was planned. */
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
