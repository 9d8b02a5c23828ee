// The only places of the tests that let time pass; `make check` refuses others. Whatever can be seen is looked for in a loop.

/** The pause between two looks of a loop that ends at a deadline, or at the time limit of its test. Milliseconds. */
export const pause = (ms: number): Promise<void> => Bun.sleep(ms);

/** Time that the scenario itself consists of, such as that of a slow server; a comment says so. Milliseconds. */
export const passing = (ms: number): Promise<void> => Bun.sleep(ms);

/** Does something later, for a scenario that consists of it: what comes in the middle of a call. A comment says so. Milliseconds. */
export const later = (work: () => void, ms: number): NodeJS.Timeout => setTimeout(work, ms);
