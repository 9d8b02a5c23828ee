/** The output formats. */
export const formats = ["text", "json", "sarif", "github", "junit"] as const;
/** An output format. */
export type Format = (typeof formats)[number];

/** The command line of `csimux validate`. */
export interface ValidateOptions {
  readonly inputs: readonly string[];
  readonly config?: string;
  /** The name of the connection on standard input. */
  readonly name: string;
  readonly format: Format;
  /** Print errors only. */
  readonly quiet?: boolean;
  /** Fail for warnings, too. */
  readonly strict?: boolean;
  /** Also connect to each storage system. */
  readonly online?: boolean;
}
