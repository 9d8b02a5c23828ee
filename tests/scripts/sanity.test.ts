import { afterEach, expect, test } from "bun:test";
import { sanityVariants } from "../../scripts/sanity.ts";

const before = process.env["CSIMUX_SEED"];
afterEach(() => {
  process.env["CSIMUX_SEED"] = before ?? "1";
});

/** What a run draws with a seed that is known only now. */
function drawn(seed: number): readonly string[] {
  process.env["CSIMUX_SEED"] = String(seed);
  return sanityVariants("usual");
}

test("each run of make test has one variant of each kind of model, and later commits draw the others", () => {
  const kinds = [/^zfs-/, /^truenas-/, /Synology/];
  const runs = Array.from({ length: 30 }, (_, seed) => drawn(seed));
  for (const kind of kinds) {
    const found = runs.map(run => run.filter(name => kind.test(name)));
    expect(found.map(names => names.length)).toEqual(runs.map(() => 1));
    expect(new Set(found.flat()).size).toBeGreaterThanOrEqual(3);
  }
});

test("what no model differs in is in each run", () => {
  const always = sanityVariants("all").filter(name => !/^zfs-|^truenas-|Synology/.test(name));
  expect(always.length).toBeGreaterThan(4);
  expect(drawn(7)).toEqual(expect.arrayContaining([...always]));
});
