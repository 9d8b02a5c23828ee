/** Says on stderr, with the time of day, what the lab is doing; stdout belongs to what was asked for. */
export const say = (text: string): void => console.error(`${new Date().toTimeString().slice(0, 8)} lab: ${text}`);
