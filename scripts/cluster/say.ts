/** Says on stderr, with the time of day, what is being done to the cluster; stdout belongs to what was asked for. */
export const say = (text: string): void => console.error(`${new Date().toTimeString().slice(0, 8)} cluster: ${text}`);
