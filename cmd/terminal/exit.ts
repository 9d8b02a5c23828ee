/** Ends a command with this exit code once everything printed has been written. */
export function exit(code: number): void {
  process.exitCode = code;
}
