import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";

/** How long a client may take to send its request, and again to read the answer, in milliseconds. */
const clientMs = 10_000;

/** The most connections at once, if the process may have enough descriptors: each may hold 16 KiB of a request. */
const mostConnections = 1_024;

/** The most bytes of answers that clients may not have read, of all connections together. */
const mostUnread = 8 << 20;

/** The most bytes that a client may send after its request. */
const mostAfter = 16 << 10;

/** How many connections are closed in one go, which takes 0.1 ms each: thousands expire together if they came together. */
const closedAtOnce = 32;
const closingMs = 50;

/** The part of the descriptors that connections may take: volumes need the others. */
const share = 8;

/** The most connections that leave enough descriptors to the process, from its limits (proc_pid_limits(5)). */
export async function connectionLimit(): Promise<number> {
  const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const [, files = "1024"] = /^Max open files +(\d+)/m.exec(limits) ?? [];
  return Math.min(mostConnections, Math.ceil(Number(files) / share));
}

/**
 * The open connections of a port. Clients that neither send nor read cannot keep others out: with one connection too many, the oldest one
 * is closed, of those without a request or of those with an answer, whichever are more; with too many unread answers, the oldest of those.
 */
export class Clients {
  readonly #most: number;
  readonly #open = new Set<Socket>();
  /** Those without a complete request and those with an answer, each with its end; the oldest first. */
  readonly #asking = new Map<Socket, number>();
  readonly #answered = new Map<Socket, number>();
  readonly #unread = new Map<Socket, number>();
  #unreadBytes = 0;
  readonly #sweep: ReturnType<typeof setInterval>;

  readonly #now: () => number;

  /** `most` connections at once; `now` in milliseconds. */
  constructor(most: number, now: () => number = () => performance.now()) {
    this.#most = most;
    this.#now = now;
    this.#sweep = setInterval(() => this.#closeExpired(), closingMs);
    this.#sweep.unref();
  }

  add(socket: Socket): void {
    const crowd = this.#asking.size < this.#answered.size ? this.#answered : this.#asking;
    const [oldest = socket] = crowd.keys();
    const isFull = this.#open.size >= this.#most;
    this.#open.add(socket);
    this.#asking.set(socket, this.#now() + clientMs);
    socket.on("error", () => this.close(socket));
    socket.on("close", () => this.close(socket));
    if (isFull) this.close(oldest);
  }

  /** Its request is complete; what it sends from now on is not read. False for a further request. */
  asked(socket: Socket): boolean {
    if (!this.#asking.delete(socket)) return false;
    let after = 0;
    socket.removeAllListeners("data");
    // A client may end its side after its request, and still reads the answer.
    socket.removeAllListeners("end");
    socket.on("data", chunk => {
      after += chunk.length;
      if (after > mostAfter) this.close(socket);
    });
    return true;
  }

  /** It is being sent an answer of this many bytes. */
  answered(socket: Socket, bytes: number): void {
    if (!this.#open.has(socket)) return;
    this.#answered.set(socket, this.#now() + clientMs);
    this.#unread.set(socket, bytes);
    this.#unreadBytes += bytes;
    for (const oldest of this.#answered.keys()) {
      if (this.#unreadBytes <= mostUnread || oldest === socket) break;
      this.close(oldest);
    }
  }

  close(socket: Socket): void {
    this.#asking.delete(socket);
    this.#answered.delete(socket);
    this.#unreadBytes -= this.#unread.get(socket) ?? 0;
    this.#unread.delete(socket);
    this.#open.delete(socket);
    socket.destroy();
  }

  closeAll(): void {
    clearInterval(this.#sweep);
    for (const socket of this.#open) this.close(socket);
  }

  #closeExpired(): void {
    const now = this.#now();
    let left = closedAtOnce;
    for (const clients of [this.#answered, this.#asking]) {
      for (const [socket, end] of clients) {
        if (end > now || left-- <= 0) break;
        this.close(socket);
      }
    }
  }
}
