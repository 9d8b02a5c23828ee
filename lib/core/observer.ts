import type { Code } from "./errors.ts";

/** A call that has begun. */
export interface CallBegun {
  /** Name of the RPC (CSI), such as "CreateVolume". */
  readonly method: string;
  /** What the request names: a connection, a group, or anything else that somebody wrote there. */
  readonly connection: string | undefined;
  /** The volume or snapshot it is about. */
  readonly object: string | undefined;
}

/** How a call ended; `connection` may be known better by then, because a group has chosen. */
export interface CallEnd {
  readonly connection: string | undefined;
  readonly code: Code | "ok";
  /** Of a call that failed: what its client was told, without secrets. */
  readonly message: string | undefined;
  /** How long it took, in seconds. */
  readonly seconds: number;
}

/** Is told of every call; what it returns is told of the end. Both are quick and never throw. */
export type CallObserver = (begun: CallBegun) => (end: CallEnd) => void;

/** A command that has ended, on this machine or on a storage host. */
export interface CommandEnd {
  /** "local", "ssh root@nas". */
  readonly where: string;
  /** Name of the program, without its folder. */
  readonly program: string;
  /** "ok", "exit" for an exit code other than 0, or how it came to none ("timeout", "unreachable", ...). */
  readonly outcome: string;
  /** How long it took, in seconds. */
  readonly seconds: number;
}

/** Is told of every command. It is quick and never throws. */
export type CommandObserver = (end: CommandEnd) => void;
