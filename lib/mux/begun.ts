/** How many names are remembered; the oldest go first. */
const most = 10_000;

interface Beginning {
  readonly named: string;
  readonly member: string;
}

/**
 * On which connections volumes were begun: `named` is what the class names, a group or the connection itself, `member` the
 * connection. While the answer to a call is lost, a member may leave its group, or its file may go away; the repeat has to look
 * there too, or it would make a second volume, and must not be told for good that nothing was made. Only this process knows.
 */
export class Begun {
  readonly #volumes = new Map<string, readonly Beginning[]>();

  /** Members of then, whatever they are now. */
  members(volume: string, named: string): readonly string[] {
    return (this.#volumes.get(volume) ?? []).filter(each => each.named === named).map(({ member }) => member);
  }

  /** The volume is about to be made on the member. */
  remember(volume: string, named: string, member: string): void {
    const others = this.#without(volume, member);
    this.#volumes.delete(volume);
    this.#volumes.set(volume, [...others, { named, member }]);
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
