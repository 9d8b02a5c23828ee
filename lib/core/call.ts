/** A structured log; `with` returns a log that adds the given fields to each line. */
export interface Log {
  /** Fields may be a function, which is called only if the line is written. */
  debug(message: string, fields?: object | (() => object)): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
  with(fields: object): Log;
}

/** Secrets of one request. Values never appear in logs, messages or an argv. */
export type Secrets = Readonly<Record<string, string>>;

/** The request on whose behalf work is done. Always the last parameter. */
export interface Call {
  readonly id: string;
  /** Aborts at the client's deadline, when the client disconnects, and at the end of a drain. */
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly secrets: Secrets;
}

/** The same call with another signal. A spread would lose what a call of the server derives when it is asked for, such as its log. */
export const withSignal = (call: Call, signal: AbortSignal): Call => ({
  id: call.id,
  log: call.log,
  secrets: call.secrets,
  signal,
});
