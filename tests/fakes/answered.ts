import { chmodSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";

/** One call of a program. */
export interface ProgramCall {
  readonly name: string;
  readonly argv: readonly string[];
  readonly stdin: string;
}

/** What a program prints, and its exit code; "killed": the caller never sees an answer. */
export type ProgramReply = { readonly out: string; readonly err?: string; readonly code: number } | "killed";

/** Where the programs are, and what answers them. */
interface Programs {
  /** For PATH. */
  readonly bin: string;
  readonly names: readonly string[];
  /** Text of a shell that they begin with: it may set `stdin`, or become another program. */
  readonly begin: string;
  readonly answer: (call: ProgramCall) => ProgramReply | Promise<ProgramReply>;
}

/**
 * A shell that starts no other program and is ten times as fast as bun, because some tests call programs thousands of times. It sends its
 * arguments to the process of the test, and finds the answer in a file, since bash reads sockets byte by byte.
 */
const script = (bin: string, port: number, begin: string): string => `#!/bin/bash
stdin=
${begin}
exec 3<>/dev/tcp/127.0.0.1/${port} || exit 1
printf '%s\\0' "$#" "\${0##*/}" "$@" "$stdin" >&3
read -r -u 3 code number || exit 1
[ "$code" != killed ] || kill -KILL $$
{ IFS= read -r -d '' out; IFS= read -r -d '' err; } <'${bin}'/"$number.answer"
printf %s "$out"
printf %s "$err" >&2
exit "$code"
`;

/** The call that a program has sent; undefined while its end is missing. */
function callIn(text: string): ProgramCall | undefined {
  const [count = "", name = "", ...words] = text.split("\0");
  const argc = Number(count);
  if (words.length < argc + 2) return undefined;
  return { name, argv: words.slice(0, argc), stdin: words[argc] ?? "" };
}

/**
 * Makes programs that this process answers, so it must not block while it waits for one. A program is killed for the answer "killed", as if the
 * machine of its user had lost power. Returns what ends them.
 */
export async function answeredPrograms({ bin, names, begin, answer }: Programs): Promise<() => void> {
  let calls = 0;
  let isEnded = false;
  const reply = async (call: ProgramCall): Promise<string> => {
    const found = await answer(call);
    if (found === "killed") return "killed\n";
    writeFileSync(join(bin, `${++calls}.answer`), `${found.out}\0${found.err ?? ""}\0`);
    return `${found.code} ${calls}\n`;
  };
  const server: Server = createServer(peer => {
    let text = "";
    peer.setEncoding("utf8");
    peer.on("error", () => {});
    peer.on("data", chunk => {
      text += chunk;
      const call = callIn(text);
      if (isEnded) peer.destroy();
      else if (call !== undefined) void reply(call).then(line => peer.end(line));
    });
  });
  const port = await new Promise<number>(resolve => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
  for (const name of names) {
    writeFileSync(join(bin, name), script(bin, port, begin));
    chmodSync(join(bin, name), 0o755);
  }
  return () => {
    isEnded = true;
    server.close();
  };
}
