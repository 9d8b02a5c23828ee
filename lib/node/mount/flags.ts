/** Flags that belong to a single mount and can therefore be given to a bind mount (mount(8), "FILESYSTEM-INDEPENDENT"). */
const restricting: ReadonlySet<string> = new Set(["ro", "nosuid", "nodev", "noexec", "nosymfollow"]);
const accessTimes: ReadonlySet<string> = new Set(["noatime", "relatime", "strictatime"]);

/** The words of a flag list; callers may join several with commas. */
export const flagWords = (flags: readonly string[]): readonly string[] =>
  flags
    .flatMap(flag => flag.split(","))
    .map(flag => flag.trim())
    .filter(flag => flag !== "");

/**
 * The flags of a list that a bind mount can carry, sorted, each once. File-system options (`nfsvers=3`, `context=…`) and
 * whatever would loosen the source's own protection (`suid`, `exec`, `dev`, `rw`) are left out.
 */
export const bindFlags = (flags: readonly string[]): readonly string[] =>
  [
    ...new Set(
      flagWords(flags).filter(flag => restricting.has(flag) || accessTimes.has(flag) || flag === "nodiratime"),
    ),
  ].sort();

/** The words of a list that `bindFlags` leaves out, without those that only state the default. */
export const otherFlags = (flags: readonly string[]): readonly string[] => {
  const kept = new Set(bindFlags(flags));
  return flagWords(flags).filter(flag => !kept.has(flag) && !["defaults", "rw"].includes(flag));
};

/**
 * The option list of a bind mount: what is wanted and what the source's mount has already. Changing one flag of a bind mount
 * sets them all anew, so a source that is mounted "nosuid" would lose that if it were not repeated.
 */
export function bindOptions(wanted: readonly string[], source: readonly string[]): readonly string[] {
  const choosesTimes = wanted.some(flag => accessTimes.has(flag));
  const inherited = bindFlags(source).filter(flag => !(choosesTimes && accessTimes.has(flag)));
  return [...new Set([...wanted, ...inherited])].sort();
}

/** Which of the protecting flags a mount lacks. Access-time flags are not looked at: the kernel does not list all of them. */
export const lackingFlags = (wanted: readonly string[], present: readonly string[]): readonly string[] =>
  wanted.filter(flag => restricting.has(flag) && !present.includes(flag));
