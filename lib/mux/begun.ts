/** How many names are remembered; the oldest go first. */
const most = 10_000;

interface Beginning {
  readonly group: string;
  readonly member: string;
}

/**
 * On which members the volumes of groups were begun. While the answer to a call is lost, a member may leave its group, or
 * its file may go away; the repeat has to look there too, or it would make a second volume. Only this process knows:
 * handles and storages say nothing of groups.
 */
export class Begun {
  readonly #volumes = new Map<string, readonly Beginning[]>();

  /** Members of then, whatever they are now. */
  members(volume: string, group: string): readonly string[] {
    return (this.#volumes.get(volume) ?? []).filter(each => each.group === group).map(({ member }) => member);
  }

  remember(volume: string, group: string, member: string): void {
    const others = this.#without(volume, member);
    this.#volumes.delete(volume);
    this.#volumes.set(volume, [...others, { group, member }]);
    const [oldest] = this.#volumes.keys();
    if (this.#volumes.size > most && oldest !== undefined) this.#volumes.delete(oldest);
  }

  /** Nothing of the volume is on the member any more. */
  forget(volume: string, member: string): void {
    const others = this.#without(volume, member);
    if (others.length > 0) this.#volumes.set(volume, others);
    else this.#volumes.delete(volume);
  }

  #without(volume: string, member: string): readonly Beginning[] {
    return (this.#volumes.get(volume) ?? []).filter(each => each.member !== member);
  }
}
