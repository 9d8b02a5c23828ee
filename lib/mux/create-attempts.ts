/** How many names are remembered; the oldest go first. */
const most = 10_000;

interface CreateAttempt {
  readonly named: string;
  readonly member: string;
  /** The driver's id; undefined until it is known. */
  readonly id: string | undefined;
}

/**
 * On which connections this process began volumes: `named` is what the class names, a group or the connection itself, `member` the
 * connection. Between two calls for one volume a member may leave its group, or its file may go away; the repeat looks there too, and
 * is not refused for good while something may stand there.
 */
export class CreateAttempts {
  readonly #volumes = new Map<string, readonly CreateAttempt[]>();
  readonly #names = new Map<string, string>();

  /** Where the volume was begun, the latest last, whether or not these are members of the group now. */
  members(volume: string, named: string): readonly string[] {
    return (this.#volumes.get(volume) ?? []).filter(each => each.named === named).map(({ member }) => member);
  }

  /** The volume is about to be made on the member, or was, under this id. */
  remember(volume: string, beginning: CreateAttempt): void {
    const { member, id } = beginning;
    const others = this.#without(volume, member);
    this.#volumes.delete(volume);
    this.#volumes.set(volume, [...others, beginning]);
    if (id !== undefined) this.#names.set(keyOf(member, id), volume);
    const [oldest] = this.#volumes.keys();
    if (this.#volumes.size > most && oldest !== undefined) this.#drop(oldest);
  }

  /** Nothing of the volume is on the member any more. */
  forget(volume: string, member: string): void {
    const before = this.#volumes.get(volume) ?? [];
    const others = this.#without(volume, member);
    for (const { id } of before.filter(each => each.member === member))
      if (id !== undefined) this.#names.delete(keyOf(member, id));
    if (others.length > 0) this.#volumes.set(volume, others);
    else this.#volumes.delete(volume);
  }

  /** The volume with this id of the driver is gone from the member. */
  forgetId(id: string, member: string): void {
    const volume = this.#names.get(keyOf(member, id));
    if (volume !== undefined) this.forget(volume, member);
  }

  #without(volume: string, member: string): readonly CreateAttempt[] {
    return (this.#volumes.get(volume) ?? []).filter(each => each.member !== member);
  }

  #drop(volume: string): void {
    for (const { member } of this.#volumes.get(volume) ?? []) this.forget(volume, member);
  }
}

const keyOf = (member: string, id: string): string => `${member}/${id}`;
