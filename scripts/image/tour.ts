import { startDaemon } from "../daemon.ts";
import { onPath } from "../packages.ts";
import { makeSandbox, zoneEnvironment } from "../sandbox.ts";
import { walk } from "../try.ts";
import type { Architecture } from "./archive.ts";

/** Debian's emulators of a processor for programs of Linux (qemu-user-static). */
const emulators: Readonly<Record<Architecture, string>> = {
  amd64: "qemu-x86_64-static",
  arm64: "qemu-aarch64-static",
};

/**
 * Starts an executable for another processor under emulation, with the libraries of its image, and walks it through what
 * `make try` shows. Answers what came of it in words; rejects when the executable does not do it.
 */
export async function tour(executable: string, libraries: string, architecture: Architecture): Promise<string> {
  const emulator = emulators[architecture];
  if (!onPath(emulator)) return `not started: ${emulator} is not here (qemu-user-static)`;
  const sandbox = await makeSandbox("off", ["fast", "archive"]);
  try {
    const command = [emulator, "-L", libraries, executable] as const;
    const daemon = await startDaemon({ command, sandbox, env: zoneEnvironment, startMs: 120_000 });
    const steps: string[] = [];
    try {
      await walk(sandbox.socket, call => void steps.push(call));
    } finally {
      await daemon.stop();
    }
    return `walked ${steps.length} steps of the tour under ${emulator}`;
  } finally {
    await sandbox.remove();
  }
}
