import { connect } from "node:net";
import { type CopyAnswer, type CopyCommandInput, readAnswer } from "../../../lib/copies/protocol.ts";
import { CsiError, errnoOf } from "../../../lib/core/errors.ts";
import { unreached } from "../../../lib/csi/socket-file.ts";

/** The longest line of an answer, in bytes. */
const maxLineBytes = 1 << 20;

const absent = "is a controller of csimux running, and is this its --endpoint?";

/** How a request ended: its last answer, or "running" if the time to wait passed before. */
export type CommandOutcome = Extract<CopyAnswer, { readonly kind: "done" | "failed" }> | { readonly kind: "running" };

/**
 * Sends a request to the command socket at `path`, and passes every answer before the last one to `tell`. Disconnects after `waitMs`;
 * the process continues its work, and the same request joins it. Throws "unavailable" if no csimux answers, or it disconnects early.
 */
export function askCopies(
  path: string,
  request: CopyCommandInput,
  waitMs: number | undefined,
  tell: (answer: CopyAnswer) => void,
): Promise<CommandOutcome> {
  return new Promise((resolve, reject) => {
    let rest = "";
    const peer = connect({ path });
    const timer =
      waitMs === undefined ? undefined : setTimeout(() => settle(() => resolve({ kind: "running" })), waitMs);
    const settle = (end: () => void): void => {
      clearTimeout(timer);
      peer.destroy();
      end();
    };
    const fail = (why: string, cause?: unknown): void =>
      settle(() => reject(new CsiError("unavailable", `${path} ${why}`, { cause })));
    const read = (line: string): void => {
      const answer = readAnswer(line);
      if (answer.kind === "done" || answer.kind === "failed") settle(() => resolve(answer));
      else tell(answer);
    };
    peer.setEncoding("utf8");
    peer.on("data", chunk => {
      const lines = `${rest}${chunk}`.split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > maxLineBytes) fail("sent a longer line than an answer can have");
      try {
        for (const line of lines) if (!peer.destroyed) read(line);
      } catch (error) {
        settle(() => reject(error));
      }
    });
    peer.on("error", error => fail(unreached(errnoOf(error), absent), error));
    peer.on("close", () => fail("was closed before the answer; see the log of csimux"));
    peer.write(`${JSON.stringify(request)}\n`);
  });
}
