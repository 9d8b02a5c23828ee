import type { CopyReach, CopyTargets } from "../../lib/copies/matrix.ts";

/** The targets of a row in words; `names` shortens a list of connections. */
export const targetNames = (
  { to, eachOther }: Pick<CopyTargets, "to" | "eachOther">,
  names: (all: readonly string[]) => string,
): string => [...(eachOther ? ["each other"] : []), ...(to.length > 0 ? [names(to)] : [])].join(" and ");

/** The methods in words. */
export function methodsText({ volumes, snapshots, why }: CopyReach): string {
  if (why !== undefined) return why;
  const more = snapshots.filter(method => !volumes.includes(method));
  const own = more.length > 0 ? [`${more.join(", else ")} from snapshots in a repository`] : [];
  return [...(volumes.length > 0 ? [volumes.join(", else ")] : []), ...own].join(", or ");
}
