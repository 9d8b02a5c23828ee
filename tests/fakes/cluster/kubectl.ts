import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answeredPrograms, type ProgramCall, type ProgramReply } from "../answered.ts";
import { readsStdin } from "../kubectl.ts";

/** A program kubectl in a folder for PATH, because a move calls it dozens of times. */
export async function kubectlProgram(answer: (call: ProgramCall) => ProgramReply) {
  const folder = mkdtempSync(join(tmpdir(), "csimux-move-"));
  const stop = await answeredPrograms({ bin: folder, names: ["kubectl"], begin: readsStdin, answer });
  const close = () => {
    stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, close };
}
