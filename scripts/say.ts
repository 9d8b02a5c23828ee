/** Prints progress to stderr, with the time of day; stdout is for results. */
export const say = (text: string): void => console.error(`${new Date().toTimeString().slice(0, 8)} ${text}`);
