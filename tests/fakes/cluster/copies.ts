import { type CopyAnswer, readCommand, writeLine } from "../../../lib/copies/protocol.ts";
import { CsiError } from "../../../lib/core/errors.ts";

/** A volume of a storage system: lines in the order in which a program wrote them. */
interface StoredVolume {
  lines: string[];
  isFrozen: boolean;
  readonly staged: Set<string>;
}

interface Copy {
  readonly source: string;
  readonly name: string;
  readonly bytes: bigint;
  state: "copying" | "ready" | "finished" | "cancelled";
  rounds: number;
  /** The snapshot of the pass that runs. */
  running: readonly string[] | undefined;
  /** The content of the last complete pass. */
  content: readonly string[] | undefined;
}

/** How the answers differ from the ordinary. */
export interface CopiesOptions {
  /** The storage cannot forbid writing. */
  readonly cannotFreeze?: boolean;
  /** The record of a finished copy goes at once. */
  readonly forgets?: boolean;
  /** What "plan" and "begin" refuse, with this message. */
  readonly refuses?: string;
  /** Runs after a copy has become the volume. */
  readonly landed?: () => void;
  /** A connection that cannot be asked for its copies. */
  readonly silent?: string;
}

const lineOf = (answer: CopyAnswer): string => `${writeLine(answer)}\n`;

/**
 * The command socket of a controller behind `csimux copies`, as lib/copies/commands.ts answers: a pass takes its snapshot at its first
 * request, which leaves before the end, and the next one joins it. Requests are checked with the product's own schema.
 */
export class CopiesDouble {
  readonly volumes = new Map<string, StoredVolume>();
  readonly copies = new Map<string, Copy>();
  /** What programs could not write, because the volume was frozen or gone. */
  readonly refusedWrites: string[] = [];
  options: CopiesOptions = {};

  add(handle: string): void {
    this.volumes.set(handle, { lines: [], isFrozen: false, staged: new Set() });
  }

  /** A program writes a line to a staged volume. */
  write(handle: string, line: string): void {
    const volume = this.volumes.get(handle);
    if (!volume || volume.isFrozen) this.refusedWrites.push(`${handle}: ${line}`);
    else volume.lines.push(line);
  }

  /** Answers one request; `waits` if its client leaves early. Returns stdout and the exit code of `csimux copies -o json`. */
  answer(line: string, ahead: boolean): { readonly out: string; readonly code: number } {
    try {
      const said = this.#answer(line, ahead);
      return "running" in said ? { out: lineOf(said.running), code: 3 } : { out: said.done, code: 0 };
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      return { out: lineOf({ kind: "failed", code: error.code, message: error.message }), code: 1 };
    }
  }

  #answer(line: string, ahead: boolean): { readonly done: string } | { readonly running: CopyAnswer } {
    const request = readCommand(line);
    switch (request.command) {
      case "plan":
      case "begin": {
        if (this.options.refuses) throw new CsiError("invalid-argument", this.options.refuses);
        if (!this.volumes.has(request.source)) throw new CsiError("not-found", `there is no volume ${request.source}`);
        const target = `v:${request.parameters["connection"]}/${request.name}`;
        if (request.command === "plan") return { done: lineOf({ kind: "done", method: "rsync", instead: [] }) };
        const { source, name, bytes } = request;
        const found = this.copies.get(target);
        if (found?.state === "cancelled") throw new CsiError("failed-precondition", `the copy ${target} was cancelled`);
        if (!found)
          this.copies.set(target, {
            source,
            name,
            bytes,
            state: "copying",
            rounds: 0,
            running: undefined,
            content: undefined,
          });
        return { done: lineOf({ kind: "done", target, method: "rsync", instead: [] }) };
      }
      case "pass":
        return this.#pass(this.#copy(request.target), ahead);
      case "finish":
        return { done: lineOf({ kind: "done", volume: this.#land(request.target) }) };
      case "cancel": {
        this.#copy(request.target).state = "cancelled";
        if (this.volumes.has(request.target))
          throw new CsiError("failed-precondition", `${request.target} is complete; delete it instead`);
        return { done: lineOf({ kind: "done" }) };
      }
      case "freeze":
      case "thaw": {
        const volume = this.volumes.get(request.volume);
        if (!volume) throw new CsiError("not-found", `there is no volume ${request.volume}`);
        const isNoted = [...this.copies.values()].some(
          each => each.source === request.volume && each.state !== "cancelled" && each.state !== "finished",
        );
        if (this.options.cannotFreeze && isNoted)
          return { done: lineOf({ kind: "done", instead: ["it stays writable"] }) };
        if (this.options.cannotFreeze) throw new CsiError("failed-precondition", "this storage cannot forbid writing");
        volume.isFrozen = request.command === "freeze";
        return { done: lineOf({ kind: "done" }) };
      }
      case "list":
        return { done: this.#list() };
    }
  }

  #copy(target: string): Copy {
    const copy = this.copies.get(target);
    if (copy) return copy;
    throw new CsiError("not-found", `there is no copy ${target}`);
  }

  #pass(copy: Copy, ahead: boolean): { readonly done: string } | { readonly running: CopyAnswer } {
    if (copy.state === "finished") throw new CsiError("failed-precondition", "the copy is finished");
    if (copy.state === "cancelled") throw new CsiError("failed-precondition", "the copy was cancelled");
    const continued = copy.running !== undefined;
    copy.state = "copying";
    copy.running ??= [...(this.volumes.get(copy.source)?.lines ?? [])];
    if (!continued && ahead)
      return {
        running: {
          kind: "progress",
          text: "37.0 GiB of 120 GiB, 112 MiB/s",
          done: 37n << 30n,
          total: 120n << 30n,
          rate: 112n << 20n,
        },
      };
    copy.content = copy.running;
    copy.running = undefined;
    copy.state = "ready";
    const number = copy.rounds++;
    return {
      done: lineOf({ kind: "done", pass: { number, snapshotTime: 1, continued, bytes: 5n << 20n, seconds: 3 } }),
    };
  }

  /** The record of a finished copy stays for a while, or goes at once; the volume is described by its storage from then on. */
  #land(target: string) {
    const landed = this.volumes.has(target) && this.copies.get(target)?.state !== "cancelled";
    const { name, bytes } = landed
      ? { name: target.slice(target.indexOf("/") + 1), bytes: 20n << 30n }
      : this.#complete(target);
    const topology = [{ "csimux.storage/zone": "z1" }];
    return { handle: target, bytes, context: { node_attach_driver: "hostpath", path: `/data/${name}` }, topology };
  }

  #complete(target: string): Copy {
    const copy = this.#copy(target);
    if (!copy.content || copy.running || copy.state === "cancelled")
      throw new CsiError("failed-precondition", `the data of volume ${target} is not complete; copy it first`);
    this.add(target);
    this.volumes.get(target)?.lines.push(...copy.content);
    copy.state = "finished";
    this.options.landed?.();
    if (this.options.forgets) this.copies.delete(target);
    return copy;
  }

  #list(): string {
    const { silent = "" } = this.options;
    const [listed, unlisted] = [["a", "b"].filter(each => each !== silent), silent === "" ? [] : [silent]];
    const copies = [...this.copies].filter(([target]) => !target.startsWith(`v:${silent}/`));
    const states = copies.map(([target, copy]) => this.#state(target, copy));
    return `{"copies":[${states.join(",")}],"listed":${JSON.stringify(listed)},"unlisted":${JSON.stringify(unlisted)}}\n`;
  }

  #state(target: string, { source, name, state, rounds, running }: Copy): string {
    return writeLine({
      ...({ kind: "copy", target, source, sourceKind: "volume", name, role: "move", state, method: "rsync" } as const),
      // The number of the present pass: the one that runs, or the last complete one.
      ...{
        pass: running ? rounds : Math.max(0, rounds - 1),
        done: 0n,
        total: 0n,
        rate: 0n,
        asked: 1,
        holder: "",
        fault: "",
      },
    });
  }
}
