/** A queue of jobs of several members; the members take turns, however many jobs each has. */
export class FairQueue<M, J> {
  readonly #waiting = new Map<M, J[]>();

  get size(): number {
    return this.#waiting.size;
  }

  add(member: M, job: J): void {
    const jobs = this.#waiting.get(member);
    if (jobs) jobs.push(job);
    else this.#waiting.set(member, [job]);
  }

  /** Takes the first job of the next member. */
  take(): J | undefined {
    const first = this.#waiting.entries().next().value;
    if (first === undefined) return undefined;
    const [member, jobs] = first;
    const job = jobs.shift();
    this.#waiting.delete(member);
    if (jobs.length > 0) this.#waiting.set(member, jobs);
    return job;
  }

  /** Removes a cancelled job. */
  remove(member: M, job: J): void {
    const rest = (this.#waiting.get(member) ?? []).filter(each => each !== job);
    if (rest.length > 0) this.#waiting.set(member, rest);
    else this.#waiting.delete(member);
  }

  /** Takes all jobs. */
  drain(): readonly J[] {
    const all = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    return all;
  }
}
