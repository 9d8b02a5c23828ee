import type { Log } from "../../core/call.ts";
import { CsiError, messageOf } from "../../core/errors.ts";
import { keepSecret } from "../../core/secrets.ts";
import { FairQueue } from "../../core/semaphore.ts";
import type { Closable } from "../lease.ts";
import { startProcess } from "../long-running-process.ts";
import { type Argv, type Child, type ChildStreams, CommandError, type CommandFailure } from "../runner.ts";
import type { Outputs, Script } from "../script.ts";
import { LoginFolder } from "./login-folder.ts";
import { loginArgv, policyOf, trustsFirst } from "./options.ts";
import { LoginFailed, refusal } from "./refusal.ts";
import { startRemoteChild } from "./remote-child.ts";
import { type SshSettings, secretsOf, whereOf } from "./settings.ts";
import { Worker } from "./worker.ts";

/**
 * The number of concurrent scripts that change something on a host, and of additional ones that only read. Each runs in
 * its own shell on its own connection, so sshd's MaxSessions does not count them together.
 */
const mostChanges = 4;
const mostBeside = 2;

/** The pause after a failed login in milliseconds: it doubles with each failure, up to `refused`, or `unreachable` if the host did not refuse it. */
const backOffMs = { first: 500, unreachable: 5_000, refused: 30_000 } as const;

/** How long an idle shell is kept, in milliseconds. */
const idleMs = 5 * 60_000;

interface QueuedScript {
  readonly script: Script;
  readonly signal: AbortSignal;
  readonly settle: (work: Promise<Outputs>) => void;
}

/** What ssh needs to start. */
export interface SshParts {
  /** PATH and HOME for ssh itself. */
  readonly env: Readonly<Record<string, string>>;
  /** The command that starts csimux again as the askpass program. */
  readonly askpass: readonly string[];
  readonly log: Log;
  /** A folder for host keys trusted on first use; without it they are forgotten when this process ends. */
  readonly known?: string;
}

/** The shells on one host, shared by all connections with the same settings. */
export class SshHost implements Closable {
  readonly where: string;
  readonly #settings: SshSettings;
  readonly #parts: SshParts;
  readonly #shown: () => void;
  readonly #changes = new FairQueue<QueuedScript>();
  readonly #reads = new FairQueue<QueuedScript>();
  /** The number of running scripts that may change something. */
  #changing = 0;
  readonly #workers = new Map<Worker, ReturnType<typeof setTimeout> | undefined>();
  readonly #children = new Set<Child>();
  #folder: Promise<LoginFolder> | undefined;
  #connecting = false;
  #failures = 0;
  /** No login is attempted until then (performance.now()); `error` is the reason. */
  #pause: { readonly until: number; readonly error: CommandError } | undefined;
  #closed = false;

  constructor(settings: SshSettings, parts: SshParts) {
    this.where = whereOf(settings);
    this.#settings = settings;
    this.#parts = parts;
    this.#shown = keepSecret(secretsOf(settings));
  }

  /** Like StorageHost.script; jobs of each member run in their order, and the members take turns. */
  async run(member: object, script: Script, signal: AbortSignal): Promise<Outputs> {
    const fail = (failure: CommandFailure, reason: string) =>
      new CommandError(this.where, script.steps[0].argv[0], failure, reason);
    if (signal.aborted) throw fail("cancelled", "not started, because the call has ended");
    if (this.#closed) throw fail("unreachable", "the connection is closed");
    const queue = script.steps.every(({ reads }) => reads) ? this.#reads : this.#changes;
    const { promise, resolve } = Promise.withResolvers<Outputs>();
    const cancel = (): void => {
      queue.remove(member, job);
      resolve(Promise.reject(fail("cancelled", "not started, because the call has ended")));
    };
    const settle = (work: Promise<Outputs>): void => {
      // From here on the worker handles the signal.
      signal.removeEventListener("abort", cancel);
      resolve(work);
    };
    const job: QueuedScript = { script, signal, settle };
    signal.addEventListener("abort", cancel, { once: true });
    queue.add(member, job);
    this.#pump();
    return promise;
  }

  /** Like StorageHost.child. */
  async child(argv: Argv, streams: ChildStreams, signal: AbortSignal): Promise<Child> {
    const fail = (failure: CommandFailure, reason: string) => new CommandError(this.where, argv[0], failure, reason);
    if (this.#closed) throw fail("unreachable", "the connection is closed");
    if (this.#pause && performance.now() < this.#pause.until) throw this.#pause.error;
    const { where } = this;
    const [settings, { env }] = [this.#settings, this.#parts];
    const child = await this.#openFolder()
      .then(folder => startRemoteChild({ where, settings, env, folder }, argv, streams, signal))
      .catch(error => {
        throw error instanceof CommandError ? error : this.#failed(error);
      });
    this.#failures = 0;
    this.#children.add(child);
    const forget = () => void this.#children.delete(child);
    child.ended.then(forget, forget);
    if (this.#closed) await child.end();
    return child;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#reject(new CommandError(this.where, "ssh", "unreachable", "the connection is closed"));
    for (const [worker, timer] of this.#workers) {
      clearTimeout(timer);
      worker.close();
    }
    this.#workers.clear();
    await Promise.all([...this.#children].map(child => child.end()));
    const folder = await this.#folder?.catch(() => undefined);
    await folder?.remove();
    this.#shown();
  }

  #pump(): void {
    for (const [worker, timer] of this.#workers) {
      if (worker.dead) {
        clearTimeout(timer);
        this.#workers.delete(worker);
      } else if (worker.usable) {
        if (!this.#begin(worker)) return;
      }
    }
    if (this.#connecting || this.#closed || !this.#needsWorker()) return;
    if (!this.#pause || performance.now() >= this.#pause.until) void this.#connect();
    else if (this.#workers.size === 0) this.#reject(this.#pause.error);
  }

  /** Starts the next script on the worker; false if there is none. Changes come first, but never take all slots. */
  #begin(worker: Worker): boolean {
    const change = this.#changing < mostChanges ? this.#changes.take() : undefined;
    const job = change ?? this.#reads.take();
    if (!job) return false;
    if (change) this.#changing++;
    this.#start(worker, job, change !== undefined);
    return true;
  }

  /** Whether a waiting script could run on another shell. */
  #needsWorker(): boolean {
    const count = this.#workers.size;
    const changes = !this.#changes.isEmpty && this.#changing < mostChanges;
    return (changes || !this.#reads.isEmpty) && count < mostChanges + (!this.#reads.isEmpty ? mostBeside : 0);
  }

  #start(worker: Worker, job: QueuedScript, changes: boolean): void {
    clearTimeout(this.#workers.get(worker));
    this.#workers.set(worker, undefined);
    const work = worker.run(job.script, job.signal);
    job.settle(work);
    const after = (): void => {
      if (changes) this.#changing--;
      if (this.#workers.has(worker)) this.#workers.set(worker, this.#rest(worker));
      this.#pump();
    };
    work.then(after, after);
  }

  /** Starts the timer that ends an idle shell. */
  #rest(worker: Worker): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => {
      this.#workers.delete(worker);
      worker.close();
    }, idleMs);
    timer.unref();
    return timer;
  }

  async #connect(): Promise<void> {
    this.#connecting = true;
    try {
      const worker = await this.#login();
      if (this.#closed) return worker.close();
      this.#workers.set(worker, this.#rest(worker));
      this.#failures = 0;
      this.#pause = undefined;
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#connecting = false;
    }
    this.#pump();
  }

  async #openFolder(): Promise<LoginFolder> {
    if (!this.#folder) this.#warn();
    this.#folder ??= LoginFolder.make(this.#settings, this.#parts.askpass, this.#parts.known);
    return await this.#folder.catch(error => {
      this.#folder = undefined;
      throw error;
    });
  }

  async #login(): Promise<Worker> {
    const folder = await this.#openFolder();
    const env = { ...this.#parts.env, ...folder.environment };
    await folder.messages();
    try {
      return await folder.withKey(files => {
        const argv = loginArgv(this.#settings, files);
        return Worker.open(this.where, listener => startProcess(argv, env, listener), this.#settings.readyTimeout);
      });
    } catch (error) {
      if (error instanceof CsiError) throw error;
      const messages = await folder.messages();
      if (this.#settings.debug) this.#parts.log.info(`${this.where}: ${messages}`);
      throw refusal(this.#settings, messages, error);
    }
  }

  #warn(): void {
    const policy = policyOf(this.#settings);
    const { log, known } = this.#parts;
    if (policy === "off")
      log.warn(`${this.where}: accepting any host key: a man in the middle can read and change everything`);
    if (!trustsFirst(this.#settings)) return;
    const long = known === undefined ? "until csimux ends" : `and kept in ${known}`;
    log.warn(`${this.where}: the first host key received is trusted ${long}; set hostKey to authenticate the host`);
  }

  /** Delays the next login. Jobs that can wait for an existing shell keep waiting; otherwise all fail. */
  #failed(error: unknown): CommandError {
    const reason = messageOf(error);
    const isLoginRefused = error instanceof LoginFailed && error.isRefused;
    const most = isLoginRefused ? backOffMs.refused : backOffMs.unreachable;
    const pauseMs = Math.min(most, backOffMs.first * 2 ** this.#failures++);
    const failed = new CommandError(this.where, "ssh", "unreachable", reason, { cause: error, isLoginRefused });
    const own = { until: performance.now() + pauseMs, error: failed };
    this.#pause = own;
    this.#parts.log.warn(`${this.where}: ${reason}`, { nextTryMs: pauseMs });
    // For what waits next to a shell that may be busy for days, and is not asked for again: its retries join it.
    setTimeout(() => this.#resume(own), pauseMs).unref();
    if (![...this.#workers.keys()].some(worker => !worker.dead)) this.#reject(failed);
    return failed;
  }

  /** Ends a pause, unless another one has begun, and logs in for what still waits. */
  #resume(pause: object): void {
    if (this.#pause !== pause) return;
    this.#pause = undefined;
    this.#pump();
  }

  #reject(error: CommandError): void {
    for (const queue of [this.#changes, this.#reads])
      for (const job of queue.drain()) job.settle(Promise.reject(error));
  }
}
