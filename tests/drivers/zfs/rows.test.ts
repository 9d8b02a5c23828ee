import { expect, test } from "bun:test";
import { entriesOf } from "../../../lib/drivers/zfs/cli-rows.ts";

const properties = ["type", "guid", "democratic-csi:csi_snapshot_name"];
const names = ["tank/v", "tank/v@a", "tank/v@b"];
const rows = names.flatMap(name => properties.map(property => `${name}\t${property}\tx\tlocal`));
const text = (lines: readonly string[]): string => lines.map(line => `${line}\n`).join("");

test("a whole answer has every property of every name", () => {
  const entries = entriesOf(text(rows), properties);
  expect(entries.map(({ name, properties: all }) => [name, [...all.keys()]])).toEqual(
    names.map(name => [name, properties]),
  );
});

test("an answer that lost, repeated or exchanged any row is refused", () => {
  for (const [at, row] of rows.entries()) {
    const [before, after] = [rows.slice(0, at), rows.slice(at + 1)];
    expect(() => entriesOf(text([...before, ...after]), properties)).toThrow("is not complete");
    expect(() => entriesOf(text([...before, row, row, ...after]), properties)).toThrow("is not complete");
    const [next, ...rest] = after;
    if (next !== undefined)
      expect(() => entriesOf(text([...before, next, row, ...rest]), properties)).toThrow("is not complete");
  }
});

test("an answer that ends within a line is refused", () => {
  const whole = text(rows);
  for (let at = 1; at < whole.length; at++)
    if (whole[at - 1] !== "\n") expect(() => entriesOf(whole.slice(0, at), properties)).toThrow("is not complete");
});
