import { isMapping, type Mapping, mappingIn } from "../../../lib/core/mapping.ts";
import { escapeHidden } from "../../../lib/core/visible.ts";
import type { Output } from "../../../lib/io/runner.ts";
import type { Host } from "../../host.ts";
import { visible } from "../../terminal/terminal.ts";
import { Cluster, kubectlWords } from "../cluster.ts";
import { isObjectName } from "./objects/objects.ts";
import type { MoveOptions } from "./options.ts";
import { MoveRefusal } from "./refusal.ts";

/** The interval of polls while a step waits, in milliseconds. */
const pollMs = 1_000;

/** The result of a poll: "done", or what is still missing, in words. */
export type Waited = "done" | { readonly missing: string };

/**
 * The cluster through kubectl, and the terminal: reads and changes objects, and talks to the person. Methods throw
 * MoveRefusal with kubectl's message.
 */
export class Kubectl {
  readonly cluster: Cluster;
  readonly #host: Host;

  constructor({ kubectl }: Pick<MoveOptions, "kubectl">, host: Host) {
    this.cluster = new Cluster({ selector: "app.kubernetes.io/name=csimux", kubectl }, host);
    this.#host = host;
  }

  /** A line for the person. */
  say(text: string): void {
    this.#host.out(`${visible(text)}\n`);
  }

  /** Runs kubectl; any exit code is an answer. Throws CommandError without one. */
  run(words: readonly string[], stdin?: string): Promise<Output> {
    return this.cluster.run(words, stdin);
  }

  /** An object, or undefined if it does not exist. */
  async get(kind: string, name: string, namespace?: string): Promise<Mapping | undefined> {
    // Others write names that objects refer to, and a flag of kubectl is none.
    if (!isObjectName(name)) throw new MoveRefusal(`"${visible(name)}" cannot be the name of a ${kind}`);
    const where = namespace === undefined ? [] : ["-n", namespace];
    const text = await this.#read(["get", kind, name, ...where, "-o", "json", "--ignore-not-found"]);
    return text.trim() === "" ? undefined : objectOf(text);
  }

  /** The objects of these kinds, in one namespace or in all. */
  async list(kinds: string, namespace?: string): Promise<readonly Mapping[]> {
    const where = namespace === undefined ? ["-A"] : ["-n", namespace];
    const { items } = objectOf(await this.#read(["get", kinds, ...where, "-o", "json"]));
    return Array.isArray(items) ? items.filter(isMapping) : [];
  }

  /** Changes the cluster with a command that reads an object. */
  async change(words: readonly string[], input?: object): Promise<void> {
    await this.#read(words, input && JSON.stringify(input));
  }

  /** Merges a patch into an object that is still at the version that was read, so that a change by another client is not overwritten. */
  async patch(kind: string, object: Mapping, patch: Mapping): Promise<void> {
    const metadata = isMapping(object["metadata"]) ? object["metadata"] : {};
    const more = isMapping(patch["metadata"]) ? patch["metadata"] : {};
    // A version in a merge patch is a precondition (Kubernetes API conventions, "Concurrency Control and Consistency").
    const whole = { ...patch, metadata: { ...more, resourceVersion: metadata["resourceVersion"] } };
    await this.change([
      "patch",
      kind,
      String(metadata["name"]),
      "--type=merge",
      "-p",
      escapeHidden(JSON.stringify(whole)),
    ]);
  }

  /** Polls until it is done. Throws MoveRefusal with what is missing after `limitMs` milliseconds. */
  async wait(limitMs: number, ask: () => Promise<Waited>): Promise<void> {
    const end = performance.now() + limitMs;
    for (;;) {
      const answer = await ask();
      if (answer === "done") return;
      if (performance.now() > end)
        throw new MoveRefusal(`after ${Math.round(limitMs / 1000)} s, ${answer.missing}; repeat the command`);
      await this.pause(pollMs);
    }
  }

  /** Waits for milliseconds, before something is asked again. */
  pause(ms: number): Promise<void> {
    return this.#host.pause(ms);
  }

  /** Asks for a word that begins with y. Throws MoveRefusal where there is no terminal to answer on. */
  async confirm(question: string): Promise<void> {
    const { question: ask } = this.#host;
    if (ask === undefined) throw new MoveRefusal(`${question} There is no terminal to ask on; give --yes`);
    if (!/^y(es)?$/i.test((await ask(`${question} [y/N] `)).trim())) throw new MoveRefusal("nothing was changed");
  }

  async #read(words: readonly string[], stdin?: string): Promise<string> {
    const output = await this.run(words, stdin);
    if (output.exitCode === 0) return output.stdout;
    throw new MoveRefusal(
      `kubectl ${words.slice(0, 3).join(" ")}: ${kubectlWords(output).replace(/^Error from server /, "")}`,
    );
  }
}

function objectOf(text: string): Mapping {
  const value = mappingIn(text);
  if (value) return value;
  throw new MoveRefusal("kubectl printed something that is not a JSON object; is --kubectl right?");
}
