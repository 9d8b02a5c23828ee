import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
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
 * A program kubectl in a folder for PATH, whose calls are answered by this process. The program is killed for the answer "killed", as if the
 * machine of its user had lost power.
 */
export async function kubectlProgram(answer: (request: KubectlRequest) => KubectlReply) {
  const folder = mkdtempSync(join(tmpdir(), "csimux-move-"));
  const socket = join(folder, "socket");
  const server: Server = createServer({ allowHalfOpen: true }, peer => {
    let text = "";
    peer.setEncoding("utf8");
    peer.on("data", chunk => {
      text += chunk;
    });
    peer.on("error", () => {});
    peer.on("end", () => peer.end(JSON.stringify(answer(JSON.parse(text) as KubectlRequest))));
  });
  await new Promise<void>(resolve => server.listen(socket, resolve));
  const program = join(folder, "kubectl");
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${import.meta.path}' '${socket}' "$@"\n`);
  chmodSync(program, 0o755);
  const close = () => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, close };
}

async function ask([socket = "", ...argv]: readonly string[]): Promise<void> {
  // kubectl reads stdin for `-f -` and `-i` only.
  const reads = argv.includes("-i") || argv.includes("-");
  const stdin = reads ? await Bun.stdin.text() : "";
  const peer = connect({ path: socket, allowHalfOpen: true });
  peer.end(JSON.stringify({ argv, stdin }));
  let text = "";
  for await (const chunk of peer) text += String(chunk);
  const reply = JSON.parse(text) as KubectlReply;
  if (reply === "killed") process.kill(process.pid, "SIGKILL");
  else {
    process.stdout.write(reply.out);
    process.stderr.write(reply.err ?? "");
    process.exitCode = reply.code;
  }
}

if (import.meta.main) await ask(process.argv.slice(2));
