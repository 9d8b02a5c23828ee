import { setTimeout as pause } from "node:timers/promises";
import { mountCapability } from "../../../scripts/client.ts";
import type { World } from "../../serve/world.ts";
import { foldersOf } from "../rig.ts";
import { run } from "../run.ts";
import type { ChaosStorage } from "./storage.ts";

/** The time limit of a step with all retries, and the interval of retries, in milliseconds. */
const stepMs = 300_000;
const againMs = 500;

/** Codes that indicate a bug in csimux: INTERNAL, UNKNOWN and UNIMPLEMENTED. */
const never: ReadonlySet<number> = new Set([2, 12, 13]);

/** Retries calls like kubelet, to a csimux that may be killed at any time. */
export class Kubelet {
  readonly #world: World;
  readonly #storage: ChaosStorage;
  /** How often calls failed, by code. */
  readonly failures = new Map<number, number>();
  /** Failures that csimux must never answer. */
  readonly wrong: string[] = [];
  #dead = false;

  constructor(world: World, storage: ChaosStorage) {
    this.#world = world;
    this.#storage = storage;
  }

  get target(): string {
    return foldersOf(this.#world, this.#storage.volume).target;
  }

  get staging(): string {
    return foldersOf(this.#world, this.#storage.volume).staging;
  }

  /** Sends SIGKILL; the next step restarts csimux. */
  kill(): void {
    if (this.#dead) return;
    this.#dead = true;
    process.kill(this.#world.daemon.pid, "SIGKILL");
  }

  stage(): Promise<void> {
    return this.#repeated("stage", async () => {
      await run(["mkdir", "-p", this.staging]);
      const secrets = { ...this.#storage.options.secrets };
      await this.#world.node("nodeStageVolume", { ...this.#common(), secrets }, 120_000);
    });
  }

  publish(): Promise<void> {
    return this.#repeated("publish", () =>
      this.#world.node("nodePublishVolume", { ...this.#common(), targetPath: this.target }, 120_000),
    );
  }

  unpublish(): Promise<void> {
    const { volumeId } = this.#storage.volume;
    return this.#repeated("unpublish", () =>
      this.#world.node("nodeUnpublishVolume", { volumeId, targetPath: this.target }, 120_000),
    );
  }

  unstage(): Promise<void> {
    const { volumeId } = this.#storage.volume;
    return this.#repeated("unstage", () =>
      this.#world.node("nodeUnstageVolume", { volumeId, stagingTargetPath: this.staging }, 120_000),
    );
  }

  #common() {
    const { volume, options } = this.#storage;
    return {
      volumeId: volume.volumeId,
      volumeContext: { ...volume.volumeContext },
      volumeCapability: options.capability ?? mountCapability,
      stagingTargetPath: this.staging,
    };
  }

  async #repeated(step: string, attempt: () => Promise<unknown>): Promise<void> {
    const until = Date.now() + stepMs;
    for (;;) {
      try {
        if (this.#dead) await this.#world.restart();
        this.#dead = false;
        await attempt();
        return;
      } catch (error) {
        const { code = -1, details } = error as { readonly code?: number; readonly details?: string };
        this.failures.set(code, (this.failures.get(code) ?? 0) + 1);
        if (never.has(code) && !this.#dead) this.wrong.push(`${step}: ${code} ${details}`);
        if (Date.now() > until) throw new Error(`${step} does not end well: ${details ?? error}`);
        await pause(againMs);
      }
    }
  }
}
