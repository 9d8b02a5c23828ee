import { describe, expect, test } from "bun:test";
import { TurnLength } from "../../lib/copies/turn-length.ts";

describe("the turns of a copy by rsync", () => {
  /** The lengths of the next turns; each given one has the moments at which a file was copied, and its end. */
  const lengths = (...turns: readonly { readonly copied: readonly number[]; readonly end: number }[]) => {
    let now = 0;
    const length = new TurnLength(100, () => now);
    return turns.map(({ copied, end }) => {
      const began = now;
      length.moved();
      for (const at of copied) {
        now = began + at;
        length.moved();
      }
      now = began + end;
      length.cut();
      return length.ms;
    });
  };

  test("are twice as long each time while no file is copied, and as long as usual afterwards", () => {
    const none = { copied: [] };
    expect(lengths({ ...none, end: 100 }, { ...none, end: 200 }, { copied: [250, 390], end: 400 })).toEqual([
      200, 400, 100,
    ]);
  });

  test("are longer also if small files that have changed are copied before a large one in each of them", () => {
    expect(lengths({ copied: [5, 10], end: 100 }, { copied: [5, 10], end: 200 })).toEqual([200, 400]);
  });

  test("stay as they are while what their end cuts off is less than a half, however long they were", () => {
    expect(lengths({ copied: [60], end: 100 }, { copied: [970], end: 1_000 })).toEqual([100, 100]);
  });
});
