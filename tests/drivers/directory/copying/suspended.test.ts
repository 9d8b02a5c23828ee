import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { CsiError } from "../../../../lib/core/errors.ts";
import { localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith } from "../../../contract/rig.ts";
import { inSteps, stepsAfter } from "../../../contract/steps.ts";
import { openOn, systemRunner, temporaryFolder } from "../directory-rig.ts";
import { abilities, anyMoment, connections, copyOf, held, needed } from "./rig.ts";

const call = callWith();

/** What another process does that has become the holder meanwhile. */
type Next = "fills the target" | "begins another copy under the name";

/** A target that a process makes the volume, which is suspended before step `at` until another one has become the holder and has done that. */
async function suspendedAt(at: number, next: Next) {
  const base = await temporaryFolder();
  const { b, to } = await connections(base);
  const { copyTarget: other } = abilities(to);
  const begin = (record: string) => other.begin(copyOf("copy"), anyMoment, record, call);
  const folder = () => needed(other.folder)("copy", call);
  await begin("one");
  await writeFile(`${await folder()}/whole`, "");
  let isVolume = false;
  const takeOver = async () => {
    await other.note("copy", "two", call);
    isVolume = (await other.existing(copyOf("copy"), call)) !== undefined;
    if (isVolume) return;
    if (next !== "fills the target") {
      await other.drop("copy", call);
      await begin("three");
    }
    await writeFile(`${await folder()}/part`, "");
  };
  let steps = 0;
  let second: Promise<void> | undefined;
  const step = stepsAfter(async now => {
    steps = now;
    if (now === at) second = takeOver();
    await second;
    return "run" as const;
  });
  const files = inSteps(localFiles, step);
  const runner = { ...systemRunner, run: inSteps({ run: systemRunner.run }, step).run };
  const { copyTarget } = abilities(openOn(b, { files, runner }));
  const stillHeld = async () => {
    if ((await other.find("copy", call))?.record !== "one")
      throw new CsiError("aborted", "another process is the holder");
  };
  const code = await codeOf(copyTarget.finish("copy", copyOf("copy"), anyMoment, stillHeld, call));
  return { b, other, code, isVolume, steps, end: () => rm(base, { recursive: true, force: true }) };
}

test.each<Next>(["fills the target", "begins another copy under the name"])(
  "a process that was suspended at any step while it made a target the volume leaves that to the next holder, which %s",
  async next => {
    const codes = new Set<string>();
    for (let at = 1; ; at++) {
      const { b, other, code, isVolume, steps, end } = await suspendedAt(at, next);
      const about = [at, code, isVolume];
      expect([...about, existsSync(`${b}/v/copy/part`)]).toEqual([...about, false]);
      if (steps >= at && !isVolume) {
        codes.add(code);
        await other.finish("copy", copyOf("copy"), anyMoment, held, call);
        const content = next === "fills the target" ? ["part", "whole"] : ["part"];
        expect([...about, (await readdir(`${b}/v/copy`)).sort()]).toEqual([...about, content]);
        await other.forget("copy", call);
        expect([...about, await readdir(`${b}/.csimux/work`)]).toEqual([...about, []]);
      }
      await end();
      if (steps < at) break;
    }
    expect([...codes].filter(code => !["aborted", "not-found", "unavailable"].includes(code))).toEqual([]);
    expect(codes.has("aborted")).toBe(true);
  },
);

test("an empty target that a killed process has left without a record is in the way of no copy", async () => {
  const base = await temporaryFolder();
  try {
    const { b, to } = await connections(base);
    const begin = (name: string) => abilities(to).copyTarget.begin(copyOf(name), anyMoment, "begun", call);
    for (const left of ["c~copy", "f~other~x"]) await mkdir(`${b}/.csimux/work/${left}`, { recursive: true });
    expect([await begin("copy"), await begin("other")]).toEqual([
      { id: "copy", record: "begun" },
      { id: "other", record: "begun" },
    ]);
    expect((await readdir(`${b}/.csimux/work`)).sort()).toEqual(["c~copy", "c~other"]);
  } finally {
    await rm(base, { recursive: true, force: true });
  }
});
