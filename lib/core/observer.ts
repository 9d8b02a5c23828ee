import type { Code } from "./errors.ts";

/** A call that has started. */
export interface CallBegun {
  /** Name of the RPC (CSI), such as "CreateVolume". */
  readonly method: string;
  /** The connection as the request names it: a connection, a group, or any unchecked text. */
  readonly connection: string | undefined;
  /** The volume or snapshot of the request. */
  readonly object: string | undefined;
}

/** The end of a call; `connection` may be more precise than at the start, because a group has chosen a member. */
export interface CallEnd {
  readonly connection: string | undefined;
  readonly code: Code | "ok";
  /** For a failed call: the message sent to the client, without secrets. */
  readonly message: string | undefined;
  /** Duration in seconds. */
  readonly seconds: number;
}

/** Called at the start of every call; the returned function is called at its end. Both are quick and never throw. */
export type CallObserver = (begun: CallBegun) => (end: CallEnd) => void;

/** A command that has ended, on this machine or on a storage host. */
export interface CommandEnd {
  /** "local", "ssh root@nas". */
  readonly where: string;
  /** Name of the program, without its folder. */
  readonly program: string;
  /** "ok", "exit" for an exit code other than 0, or why there is no exit code ("timeout", "unreachable", ...). */
  readonly outcome: string;
  /** Duration in seconds. */
  readonly seconds: number;
}

/** Called at the end of every command. Quick; never throws. */
export type CommandObserver = (end: CommandEnd) => void;
