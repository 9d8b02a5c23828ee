import { type CopyAnswer, type CopyCommandInput, type CopyState, readAnswer } from "../../../lib/copies/protocol.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import { parseHandle } from "../../../lib/core/handle.ts";
import { listAt, textAt } from "../../../lib/lint/lint-input.ts";
import { visible } from "../../terminal/terminal.ts";
import { type CsimuxPod, inPodOf, kubectlWords } from "../cluster.ts";
import { stillRunning } from "../copies/options.ts";
import type { ServedDriver } from "./cluster-objects.ts";
import type { Kubectl } from "./kubectl.ts";
import { listOfTexts } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";

/** The last answer of a successful request. */
export type CopyDone = Extract<CopyAnswer, { readonly kind: "done" }>;

/** A progress line of a running request. */
export type PassProgress = Extract<CopyAnswer, { readonly kind: "progress" }>;

/** The parameters of a new volume: the request "begin" without the name of the command. */
export type WantedCopy = Omit<Extract<CopyCommandInput, { readonly command: "begin" }>, "command">;

/** How long one `kubectl exec` waits for a pass, in seconds; connections that last for hours break. */
const waitSeconds = 20;

/** How often a request without an answer is repeated, and the pause before that, in milliseconds. All requests may be repeated. */
const attempts = 5;
const pauseMs = 2_000;

/** How long another csimux may have the lease of a copy before that is an error, in milliseconds: that of a dead process ends within two minutes. */
const heldMs = 180_000;

/** A refusal of the controller, with its code. */
export class CopyRefusal extends Error {
  override readonly name = "CopyRefusal";
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** A controller and what it serves. */
interface ServingPod {
  readonly pod: CsimuxPod;
  readonly served: ServedDriver;
}

/** The controller of csimux, through `csimux copies` in its pod. Methods throw CopyRefusal, and MoveRefusal if it does not answer. */
export class CopyingController {
  readonly #kubectl: Kubectl;
  readonly #driver: string;
  #pod: ServingPod | undefined;

  constructor(kubectl: Kubectl, driver: string) {
    this.#kubectl = kubectl;
    this.#driver = driver;
  }

  /** What the controller serves. */
  async served(): Promise<ServedDriver> {
    return (await this.#found()).served;
  }

  /** The copies of all connections that answer. */
  async list(): Promise<readonly CopyState[]> {
    return (await this.#list()).copies;
  }

  /** The copy to a volume; undefined if there is no record of one. Throws MoveRefusal if the connection does not answer. */
  async find(target: string): Promise<CopyState | undefined> {
    const { copies, listed } = await this.#list();
    const found = copies.find(each => each.target === target);
    const connection = parseHandle(target, "volume")?.connection;
    if (found || (connection !== undefined && listed.includes(connection))) return found;
    throw new MoveRefusal(
      `connection ${connection} does not list its copies, so the state of the copy to ${target} is unknown; repeat the command`,
    );
  }

  async #list() {
    const { stdout } = await this.#send(["copies", "list"], undefined, ({ exitCode }) => exitCode === 0);
    const value: unknown = JSON.parse(stdout);
    const states = listAt(value, "copies").map(each => readAnswer(JSON.stringify(each)));
    return { copies: states.filter(each => each.kind === "copy"), listed: listOfTexts(value, "listed") };
  }

  /** Whether and how a copy would be made. Changes nothing. */
  plan = (wanted: WantedCopy): Promise<CopyDone> => this.#ask(["plan"], undefined, JSON.stringify(wanted));

  /** Creates the unfinished volume of a copy, or finds it. */
  begin = (wanted: WantedCopy): Promise<CopyDone> => this.#ask(["begin"], undefined, JSON.stringify(wanted));

  /** Completes one pass; `tell` gets its progress. */
  pass = (target: string, tell: (progress: PassProgress) => void): Promise<CopyDone> =>
    this.#ask(["pass", target, "--wait", String(waitSeconds)], tell);

  /** Makes the last complete pass the volume. */
  finish = (target: string): Promise<CopyDone> => this.#ask(["finish", target]);
  freeze = (volume: string): Promise<CopyDone> => this.#ask(["freeze", volume]);
  thaw = (volume: string): Promise<CopyDone> => this.#ask(["thaw", volume]);
  cancel = (target: string): Promise<CopyDone> => this.#ask(["cancel", target]);

  async #ask(words: readonly string[], tell?: (progress: PassProgress) => void, stdin?: string): Promise<CopyDone> {
    const end = performance.now() + heldMs;
    for (;;) {
      const answers = await this.#answers(["copies", ...words], stdin);
      const last = answers.at(-1);
      for (const answer of answers) if (answer.kind === "progress") tell?.(answer);
      if (last?.kind === "done") return last;
      if (last?.kind !== "failed") continue;
      if (last.code !== "aborted" || performance.now() > end) throw new CopyRefusal(last.code, visible(last.message));
      await this.#kubectl.pause(pauseMs);
    }
  }

  /** The answers of one request; without an end if it continues. */
  async #answers(words: readonly string[], stdin: string | undefined): Promise<readonly CopyAnswer[]> {
    let answers: readonly CopyAnswer[] = [];
    await this.#send(words, stdin, ({ stdout, exitCode }) => {
      answers = stdout.split("\n").flatMap(line => (line.startsWith("{") ? answerOf(line) : []));
      const last = answers.at(-1)?.kind;
      return last === "done" || last === "failed" || exitCode === stillRunning;
    });
    return answers;
  }

  /** Runs csimux in the pod until the answer is complete: a connection may break, and the pod may be replaced. */
  async #send(
    words: readonly string[],
    stdin: string | undefined,
    isComplete: (output: { readonly stdout: string; readonly exitCode: number }) => boolean,
  ): Promise<{ readonly stdout: string }> {
    for (let attempt = 1; ; attempt++) {
      const { pod } = await this.#found();
      const output = await this.#kubectl.run(inPodOf(pod, [...words, "-o", "json"], stdin !== undefined), stdin);
      if (isComplete(output)) return output;
      this.#pod = undefined;
      const why = visible(kubectlWords(output).split("\n")[0] ?? "");
      if (attempt === attempts)
        throw new MoveRefusal(
          `the controller ${pod.namespace}/${pod.name} does not answer csimux ${words.slice(0, 2).join(" ")}: ${why}`,
        );
      await this.#kubectl.pause(pauseMs);
    }
  }

  /** A ready controller that serves the driver. */
  async #found(): Promise<ServingPod> {
    if (this.#pod) return this.#pod;
    const pods = await this.#kubectl.cluster.pods();
    for (const pod of pods.filter(each => each.isController && each.isReady)) {
      const { stdout } = await this.#kubectl.run(inPodOf(pod, ["status", "-o", "json"], false));
      const served = servedIn(stdout);
      if (served?.name !== this.#driver && !served?.aliases.has(this.#driver)) continue;
      this.#pod = { pod, served };
      return this.#pod;
    }
    throw new MoveRefusal(`no ready controller of csimux serves the driver ${this.#driver}`);
  }
}

function answerOf(line: string): readonly CopyAnswer[] {
  try {
    return [readAnswer(line)];
  } catch (error) {
    if (error instanceof CsiError) return [];
    throw error;
  }
}

/** What a process serves, according to its status; undefined for other text. */
function servedIn(status: string): ServedDriver | undefined {
  try {
    const value: unknown = JSON.parse(status);
    const aliases = listAt(value, "aliases").map(
      each => [textAt(each, "name") ?? "", textAt(each, "connection") ?? ""] as const,
    );
    return { name: textAt(value, "name") ?? "", aliases: new Map(aliases) };
  } catch {
    return undefined;
  }
}
