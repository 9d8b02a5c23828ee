/** The name of an operating system error ("ENOENT"), or undefined for any other error. */
export const errnoOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code)
    ? error.code
    : undefined;
