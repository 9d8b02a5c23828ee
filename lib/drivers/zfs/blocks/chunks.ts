/** Hands chunks from one who writes to one who reads; who writes waits until each is taken. */
export class Chunks implements AsyncIterable<Uint8Array> {
  readonly #waiting: { readonly chunk: Uint8Array; readonly taken: () => void }[] = [];
  #isClosed = false;
  #wake: () => void = () => {};

  /** Resolves when the chunk is taken, or the iteration has ended. */
  readonly add = (chunk: Uint8Array): Promise<void> =>
    new Promise(resolve => {
      if (this.#isClosed) return resolve();
      this.#waiting.push({ chunk, taken: resolve });
      this.#wake();
    });

  /** Ends the iteration after the chunks that were added. */
  readonly close = (): void => {
    this.#isClosed = true;
    this.#wake();
  };

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    try {
      for (;;) {
        const next = this.#waiting.shift();
        if (next) {
          next.taken();
          yield next.chunk;
        } else if (this.#isClosed) return;
        else
          await new Promise<void>(resolve => {
            this.#wake = resolve;
          });
      }
    } finally {
      this.close();
      for (const { taken } of this.#waiting.splice(0)) taken();
    }
  }
}
