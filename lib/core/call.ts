/** Structured log lines; `with` returns a log whose lines all carry the given fields. */
export interface Log {
  /** Fields may be given as a function, which is called only when the line is written. */
  debug(message: string, fields?: object | (() => object)): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
  with(fields: object): Log;
}

/** Secrets of one request. Values are never logged and never put into a message or an argv. */
export type Secrets = Readonly<Record<string, string>>;

/** The request that a piece of work belongs to. Always the last parameter. */
export interface Call {
  readonly id: string;
  /** Aborts at the client's deadline, when the client goes away, and at the end of a drain. */
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly secrets: Secrets;
}
