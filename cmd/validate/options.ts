/** The forms of what `validate` prints. */
export const formats = ["text", "json", "sarif", "github", "junit"] as const;
/** One of them. */
export type Format = (typeof formats)[number];

/** The command line of `csimux validate`. */
export interface ValidateOptions {
  readonly inputs: readonly string[];
  readonly config: string | undefined;
  /** Of the connection that is read from standard input. */
  readonly name: string;
  readonly format: Format;
  /** Errors only. */
  readonly quiet: boolean;
  /** Warnings fail too. */
  readonly strict: boolean;
  /** Also connect to each storage system. */
  readonly online: boolean;
}
