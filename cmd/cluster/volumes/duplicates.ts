/** The volumes of a member. */
export interface MemberListing {
  readonly member: string;
  readonly ids: ReadonlySet<string>;
  /** Like LookupAbility.idOf. */
  readonly idOf: (name: string) => string;
}

/** A volume with the same name as one on another member. */
export interface Duplicate {
  readonly member: string;
  readonly id: string;
  readonly other: string;
}

/**
 * The volumes that have the name of one on another member. Most ids are the names themselves; if one member has to shorten a name, the id on the other one is that name.
 */
export function duplicatesOf(all: readonly MemberListing[]): readonly Duplicate[] {
  const duplicates: Duplicate[] = [];
  for (const one of all)
    for (const id of one.ids)
      for (const other of all) {
        if (other === one) continue;
        const same = [id, other.idOf(id)].find(each => other.ids.has(each));
        if (same === undefined) continue;
        duplicates.push({ member: one.member, id, other: other.member });
        duplicates.push({ member: other.member, id: same, other: one.member });
      }
  return duplicates;
}
