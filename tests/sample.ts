/** Whether everything is tested, as before a release (`make test-all`), and not samples. */
export const everything = process.env["CSIMUX_FUZZ"] === "all";

/** Draws the samples. `make test` lets it follow the commit, so that each one tests others. */
export const seed = Number(process.env["CSIMUX_SEED"] ?? 1);

/** Unlike `seed`, also that of `make test` itself, which learns it after it has loaded this file. */
const seedNow = (): number => Number(process.env["CSIMUX_SEED"] ?? 1);

/** About `some` members of a list at equal distances, which the seed draws. With `shift`, the same run draws others. */
export function drawn<T>(all: readonly T[], some: number, shift = 0): readonly T[] {
  const distance = everything ? 1 : Math.max(1, Math.ceil(all.length / some));
  return all.filter((_, at) => (at + seed + shift) % distance === 0);
}

/** The members of a list that are tested in each run, and one of the others, which the seed draws. */
export function sampled<T>(all: readonly T[], always: (each: T) => boolean): readonly T[] {
  if (everything) return all;
  const others = all.filter(each => !always(each));
  const drawn = others[seedNow() % others.length];
  return all.filter(each => always(each) || each === drawn);
}
