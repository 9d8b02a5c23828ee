import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** One call of kubectl. */
export interface KubectlRequest {
  readonly argv: readonly string[];
  readonly stdin: string;
}

/** What it prints, and its exit code; "killed": the caller never sees an answer. */
export type KubectlReply = { readonly out: string; readonly err?: string; readonly code: number } | "killed";

/**
 * The program: a shell that starts no other program and is ten times as fast as bun, because a move calls kubectl dozens of times. It sends
 * its arguments to the process of the test, and what it reads of stdin, as kubectl does for `-f -` and `-i` only.
 */
const program = (folder: string, port: number): string => `#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/${port} || exit 1
stdin=
for each in "$@"; do case "$each" in -i | -) IFS= read -r -d '' stdin; break ;; esac; done
printf '%s\\0' "$#" "$@" "$stdin" >&3
read -r -u 3 code number
[ "$code" != killed ] || kill -KILL $$
IFS= read -r -d '' text <'${folder}'/"$number".out
printf %s "$text"
IFS= read -r -d '' text <'${folder}'/"$number".err
printf %s "$text" >&2
exit "$code"
`;

/** The call that the program has sent; undefined while its end is missing. */
function requestOf(text: string): KubectlRequest | undefined {
  const [count = "", ...words] = text.split("\0");
  const argc = Number(count);
  if (words.length < argc + 2) return undefined;
  return { argv: words.slice(0, argc), stdin: words[argc] ?? "" };
}

/**
 * A program kubectl in a folder for PATH, whose calls are answered by this process. The program is killed for the answer "killed", as if the
 * machine of its user had lost power.
 */
export async function kubectlProgram(answer: (request: KubectlRequest) => KubectlReply) {
  const folder = mkdtempSync(join(tmpdir(), "csimux-move-"));
  let calls = 0;
  const reply = (request: KubectlRequest): string => {
    const found = answer(request);
    if (found === "killed") return "killed\n";
    const path = join(folder, String(++calls));
    writeFileSync(`${path}.out`, found.out);
    writeFileSync(`${path}.err`, found.err ?? "");
    return `${found.code} ${calls}\n`;
  };
  const server: Server = createServer(peer => {
    let text = "";
    peer.setEncoding("utf8");
    peer.on("error", () => {});
    peer.on("data", chunk => {
      text += chunk;
      const request = requestOf(text);
      if (request !== undefined) peer.end(reply(request));
    });
  });
  const port = await new Promise<number>(resolve => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
  const path = join(folder, "kubectl");
  writeFileSync(path, program(folder, port));
  chmodSync(path, 0o755);
  const close = () => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, close };
}
