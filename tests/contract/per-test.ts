import { afterEach } from "bun:test";

/** A function that makes what `make` does, closed after the test. */
export function perTest<R extends { close(): Promise<void> }, A extends readonly unknown[]>(
  make: (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  const opened: R[] = [];
  afterEach(async () => {
    for (const each of opened.splice(0)) await each.close();
  });
  return async (...args) => {
    const one = await make(...args);
    opened.push(one);
    return one;
  };
}
