import { afterEach, beforeEach, expect, test } from "bun:test";
import { readdir, rm, writeFile } from "node:fs/promises";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith } from "../../../contract/rig.ts";
import { temporaryFolder } from "../directory-rig.ts";
import { abilities, anyMoment, connections, copyOf } from "./rig.ts";

const call = callWith();

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

test("a copy stays cancelled whatever is noted, until its record goes; a mark without a record does not concern a new copy", async () => {
  const { b, to } = await connections(base);
  const { copyTarget } = abilities(to);
  const begin = () => copyTarget.begin(copyOf("copy"), anyMoment, "begun", call);
  expect(await codeOf(copyTarget.markCancelled("copy", call))).toBe("not-found");
  await begin();
  await copyTarget.markCancelled("copy", call);
  await copyTarget.markCancelled("copy", call);
  await copyTarget.note("copy", "noted", call);
  const marked = { id: "copy", record: "noted", isCancelled: true };
  expect([await copyTarget.find("copy", call), await copyTarget.copies(call), await begin()]).toEqual([
    marked,
    [marked],
    marked,
  ]);
  await copyTarget.empty("copy", call);
  expect(await copyTarget.find("copy", call)).toEqual(marked);
  await copyTarget.drop("copy", call);
  expect(await readdir(`${b}/.csimux/copies`)).toEqual([]);
  await writeFile(`${b}/.csimux/copies/copy~marked`, "");
  expect(await begin()).toEqual({ id: "copy", record: "begun" });
  expect(await copyTarget.find("copy", call)).toEqual({ id: "copy", record: "begun" });
});
