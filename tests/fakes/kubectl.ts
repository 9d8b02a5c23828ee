import { mkdirSync } from "node:fs";
import { answeredPrograms, type ProgramCall } from "./answered.ts";

/** What kubectl answers to a command line. */
export interface KubectlAnswer {
  /** Found in the arguments, joined by blanks. */
  readonly to: string;
  readonly out?: unknown;
  readonly err?: string;
  readonly code?: number;
}

/** Text of a shell: kubectl reads stdin for `-f -` and `-i` only. */
export const readsStdin = `for each in "$@"; do case "$each" in -i | -) IFS= read -r -d '' stdin; break ;; esac; done`;

/**
 * A program kubectl in `bin`, to put first on PATH, that gives the first fitting answer. Lists and objects have the shapes of the
 * Kubernetes API reference 1.34 (kubernetes.io/docs/reference/kubernetes-api); `kubectl get` of a list is a v1 List. Without an answer it
 * says what kubectl 1.34 says of a missing object. Returns its calls, and what ends it.
 */
export async function fakeKubectl(bin: string, answers: readonly KubectlAnswer[]) {
  mkdirSync(bin, { recursive: true });
  const calls: ProgramCall[] = [];
  const answer = (call: ProgramCall) => {
    calls.push(call);
    const words = call.argv.join(" ");
    const missing = `Error from server (NotFound): ${call.argv[1]} "${call.argv[2]}" not found`;
    const found: KubectlAnswer = answers.find(({ to }) => words.includes(to)) ?? { to: "", err: missing, code: 1 };
    const { out = "", err = "", code = 0 } = found;
    return { out: typeof out === "string" ? out : JSON.stringify(out), err: err === "" ? "" : `${err}\n`, code };
  };
  const stop = await answeredPrograms({ bin, names: ["kubectl"], begin: readsStdin, answer });
  return { calls, stop };
}
