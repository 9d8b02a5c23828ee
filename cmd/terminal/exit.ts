/** Ends a command with this exit code once all output has been written. */
export function exit(code: number): void {
  process.exitCode = code;
}
