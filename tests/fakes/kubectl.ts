import { appendFileSync, chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What kubectl answers to a command line. */
export interface KubectlAnswer {
  /** Found in the arguments, joined by blanks. */
  readonly to: string;
  readonly out?: unknown;
  readonly err?: string;
  readonly code?: number;
}

/** A call as it arrived. */
export interface KubectlCall {
  readonly argv: readonly string[];
  readonly stdin: string;
}

/**
 * A program kubectl in `folder`, to put first on PATH, that gives the first fitting answer. Lists and objects have the shapes of the
 * Kubernetes API reference 1.34 (kubernetes.io/docs/reference/kubernetes-api); `kubectl get` of a list is a v1 List. Without an answer it
 * says what kubectl 1.34 says of a missing object.
 */
export function fakeKubectl(folder: string, answers: readonly KubectlAnswer[]): () => readonly KubectlCall[] {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, "kubectl");
  const data = join(folder, "answers.json");
  writeFileSync(data, JSON.stringify(answers));
  writeFileSync(join(folder, "calls"), "");
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${import.meta.path}' '${data}' "$@"\n`);
  chmodSync(path, 0o755);
  const lines = () => readFileSync(join(folder, "calls"), "utf8").split("\n").filter(Boolean);
  return () => lines().map(line => JSON.parse(line) as KubectlCall);
}

async function answer([data = "", ...argv]: readonly string[]): Promise<void> {
  const stdin = argv.includes("-i") ? await Bun.stdin.text() : "";
  appendFileSync(join(data, "../calls"), `${JSON.stringify({ argv, stdin })}\n`);
  const answers = JSON.parse(readFileSync(data, "utf8")) as readonly KubectlAnswer[];
  const words = argv.join(" ");
  const missing: KubectlAnswer = {
    to: "",
    err: `Error from server (NotFound): ${argv[1]} "${argv[2]}" not found`,
    code: 1,
  };
  const { out = "", err = "", code = 0 } = answers.find(each => words.includes(each.to)) ?? missing;
  process.stdout.write(typeof out === "string" ? out : JSON.stringify(out));
  if (err !== "") process.stderr.write(`${err}\n`);
  process.exitCode = code;
}

if (import.meta.main) await answer(process.argv.slice(2));
