import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostPath } from "../core/host-path.ts";
import { localRunner } from "../io/local.ts";
import { runToSuccess } from "../io/runner.ts";

/** A pipe of the kernel between two programs: its data does not pass through this process. */
export interface Pipe {
  /** The descriptor for the stdin of the one that reads. */
  readonly reader: number;
  /** The descriptor for the stdout of the one that writes. */
  readonly writer: number;
  /** Closes both descriptors of this process. A program sees the end of the pipe only after that; may be repeated. */
  close(): Promise<void>;
}

/** Candidate folders for the name of a pipe, which exists for a moment: in memory rather than on disk, if available. */
const folders = ["/dev/shm", tmpdir()];

const runner = localRunner({ env: { PATH: hostPath } });

/**
 * Makes a pipe. Node has no function for one whose ends can be given to children, so it is a FIFO (fifo(7)) with an unguessable name
 * that only this account may open, and that is removed at once. Throws CsiError.
 */
export async function openPipe(signal: AbortSignal): Promise<Pipe> {
  const name = `csimux-pipe-${randomBytes(16).toString("hex")}`;
  const [first = "", second = ""] = folders.map(folder => join(folder, name));
  try {
    return await pipeAt(first, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return await pipeAt(second, signal);
  }
}

async function pipeAt(path: string, signal: AbortSignal): Promise<Pipe> {
  const opened: FileHandle[] = [];
  const end = async (flags: number): Promise<FileHandle> => {
    const file = await open(path, flags);
    opened.push(file);
    return file;
  };
  const close = async (): Promise<void> => {
    await Promise.all(opened.splice(0).map(file => file.close()));
  };
  try {
    await runToSuccess(runner, { argv: ["mkfifo", "-m", "600", path] }, "making a pipe", signal);
    // With this one, an open of one end does not wait for the other one (fifo(7)). The ends do not share their flags: ssh(1) changes those.
    const both = await end(constants.O_RDWR);
    const [reader, writer] = [await end(constants.O_RDONLY), await end(constants.O_WRONLY)];
    opened.shift();
    await both.close();
    return { reader: reader.fd, writer: writer.fd, close };
  } catch (error) {
    await close();
    throw error;
  } finally {
    await rm(path, { force: true });
  }
}
