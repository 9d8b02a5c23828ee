import { connect } from "node:net";
import { createInterface } from "node:readline";

/** A connection to QEMU's control socket (QMP, QEMU Machine Protocol: one JSON object per line). */
export interface Qmp {
  /** Executes one command; throws QEMU's error. */
  execute(command: string, args?: Readonly<Record<string, unknown>>): Promise<unknown>;
  close(): void;
}

interface Reply {
  readonly return?: unknown;
  readonly error?: { readonly desc: string };
}

/** Opens QEMU's control socket; throws if it cannot connect. */
export async function openQmp(path: string): Promise<Qmp> {
  const socket = connect({ path });
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  const replies = createInterface({ input: socket })[Symbol.asyncIterator]();
  const nextReply = async (): Promise<Reply> => {
    for (;;) {
      const line = await replies.next();
      if (line.done) throw new Error("QEMU closed its control socket");
      const reply = JSON.parse(line.value) as Reply;
      if ("return" in reply || "error" in reply) return reply;
    }
  };
  const execute = async (command: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> => {
    socket.write(`${JSON.stringify({ execute: command, arguments: args })}\n`);
    const reply = await nextReply();
    if (reply.error) throw new Error(`QEMU: ${command}: ${reply.error.desc}`);
    return reply.return;
  };
  await execute("qmp_capabilities");
  return { execute, close: () => socket.destroy() };
}
