import { expect, test } from "bun:test";
import { readdir, readFile, writeFile } from "node:fs/promises";
import type { AccessMode, Capability } from "../../lib/core/access.ts";
import { type Command, CommandError } from "../../lib/io/runner.ts";
import { fc } from "../fast-check.ts";
import { callOf, calm, codeOf, isRoot, Lab, local, spying, writer } from "./lab.ts";

const modes: readonly AccessMode[] = ["single-node-writer", "single-node-single-writer", "multi-node-reader-only"];

const step = fc.record({
  what: fc.constantFrom("stage", "publish", "unpublish", "unstage", "stats", "expand"),
  volume: fc.constantFrom("a", "b"),
  staging: fc.constantFrom("s1", "s2"),
  target: fc.constantFrom("t1", "t2", "s1"),
  mode: fc.constantFrom(...modes),
  readonly: fc.boolean(),
  /** The fault of the next command: none, interrupted before it, or after it; and whether the process restarts. */
  fault: fc.constantFrom("none", "none", "before", "after"),
  restart: fc.boolean(),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const allowed: ReadonlySet<string> = new Set([
  "ok",
  "invalid-argument",
  "not-found",
  "already-exists",
  "failed-precondition",
  "deadline-exceeded",
]);

const faulty = (fault: Step["fault"]) =>
  spying(async (command: Command, count: number) => {
    if (fault === "none" || count > 1) return;
    if (fault === "after") await local.run(command, calm);
    throw new CommandError("local", command.argv[0], "timeout", "broken off");
  });

const perform = (
  lab: Lab,
  node: ReturnType<Lab["node"]>,
  { what, volume, staging, target, mode, readonly }: Step,
): Promise<unknown> => {
  const capability: Capability = { ...writer, mode };
  const stagingPath = lab.at(staging);
  const targetPath = lab.at(target);
  const work = {
    stage: () => node.stage(lab.stage(volume, { stagingPath, capability }), callOf()),
    publish: () => node.publish(lab.publish(volume, { stagingPath, targetPath, capability, readonly }), callOf()),
    unpublish: () => node.unpublish({ volumeId: volume, targetPath }, callOf()),
    unstage: () => node.unstage({ volumeId: volume, stagingPath }, callOf()),
    stats: () => node.stats({ volumeId: volume, path: targetPath }, callOf()),
    expand: () => node.expand({ volumeId: volume, path: targetPath }, undefined, callOf()),
  };
  return work[what as keyof typeof work]();
};

test.skipIf(!isRoot)(
  "for random calls in random order, mounts never stack, data stays, and everything can be undone",
  async () => {
    const life = async (steps: readonly Step[]): Promise<void> => {
      const lab = await Lab.open();
      try {
        for (const name of ["a", "b"]) await writeFile(`${await lab.source(name)}/data`, name);
        let node = lab.node();
        for (const one of steps) {
          if (one.restart || one.fault !== "none") node = lab.node(faulty(one.fault));
          const before = await lab.mounts();
          expect(allowed).toContain(await codeOf(perform(lab, node, one)));
          const after = await lab.mounts();
          expect(new Set(after.map(({ at }) => at)).size).toBe(after.length);
          const gone = before.filter(({ id }) => !after.some(mount => mount.id === id));
          const come = after.filter(({ id }) => !before.some(mount => mount.id === id));
          for (const { root } of [...gone, ...come]) expect(root).toEndWith(`/base/${one.volume}`);
        }
        const last = lab.node();
        // Twice: the record of a path that another volume has taken stays until that one is gone.
        for (const volumeId of ["a", "b", "a", "b"]) {
          for (const at of ["t1", "t2", "s1"])
            await codeOf(last.unpublish({ volumeId, targetPath: lab.at(at) }, callOf()));
        }
        // Twice: the record of a path that another volume has taken stays until that one is gone.
        for (const volumeId of ["a", "b", "a", "b"]) {
          for (const at of ["s1", "s2"]) await codeOf(last.unstage({ volumeId, stagingPath: lab.at(at) }, callOf()));
          expect(await readFile(lab.at("base", volumeId, "data"), "utf8")).toBe(volumeId);
        }
        expect(await lab.mounted()).toEqual([]);
        expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
      } finally {
        await lab.close();
      }
    };
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), life), { numRuns: 60 });
  },
  60_000,
);
