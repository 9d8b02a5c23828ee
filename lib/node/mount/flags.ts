/** Flags that belong to a single mount, so that a bind mount can have them (mount(8), "FILESYSTEM-INDEPENDENT"). */
const restricting: ReadonlySet<string> = new Set(["ro", "nosuid", "nodev", "noexec", "nosymfollow"]);
const accessTimes: ReadonlySet<string> = new Set(["noatime", "relatime", "strictatime"]);

/** The individual flags of a list whose entries may contain several, separated by commas. */
export const flagWords = (flags: readonly string[]): readonly string[] =>
  flags
    .flatMap(flag => flag.split(","))
    .map(flag => flag.trim())
    .filter(flag => flag !== "");

/**
 * The flags of a list that a bind mount can have, sorted and unique. Omits file system options (`nfsvers=3`,
 * `context=…`) and flags that would weaken the source's own protection (`suid`, `exec`, `dev`, `rw`).
 */
export const bindFlags = (flags: readonly string[]): readonly string[] =>
  [
    ...new Set(
      flagWords(flags).filter(flag => restricting.has(flag) || accessTimes.has(flag) || flag === "nodiratime"),
    ),
  ].sort();

/** The flags of a list that `bindFlags` omits, without those that only state the default. */
export const otherFlags = (flags: readonly string[]): readonly string[] => {
  const kept = new Set(bindFlags(flags));
  return flagWords(flags).filter(flag => !kept.has(flag) && !["defaults", "rw"].includes(flag));
};

/**
 * The options of a bind mount: the requested flags and those of the source's mount. Changing one flag of a bind mount
 * sets all of them, so a source mounted with "nosuid" would lose that if it were not repeated.
 */
export function bindOptions(wanted: readonly string[], source: readonly string[]): readonly string[] {
  const choosesTimes = wanted.some(flag => accessTimes.has(flag));
  const inherited = bindFlags(source).filter(flag => !(choosesTimes && accessTimes.has(flag)));
  return [...new Set([...wanted, ...inherited])].sort();
}

/** The protecting flags that a mount lacks. Ignores access-time flags, because the kernel does not list all of them. */
export const lackingFlags = (wanted: readonly string[], present: readonly string[]): readonly string[] =>
  wanted.filter(flag => restricting.has(flag) && !present.includes(flag));
