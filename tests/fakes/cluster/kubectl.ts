import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answeredPrograms, type ProgramCall, type ProgramReply } from "../answered.ts";

/** Kubectl reads stdin for `-f -` and `-i` only. */
const begin = `for each in "$@"; do case "$each" in -i | -) IFS= read -r -d '' stdin; break ;; esac; done`;

/** A program kubectl in a folder for PATH, because a move calls it dozens of times. */
export async function kubectlProgram(answer: (call: ProgramCall) => ProgramReply) {
  const folder = mkdtempSync(join(tmpdir(), "csimux-move-"));
  const stop = await answeredPrograms({ bin: folder, names: ["kubectl"], begin, answer });
  const close = () => {
    stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, close };
}
