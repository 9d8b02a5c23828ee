import { expect, test } from "bun:test";
import type { CopySpec } from "../../../../lib/drivers/copying.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { codeOf, copied, copyOf, copyRig, giving, joined, namesIn, streamsOf, taking, targetOf } from "./copy-rig.ts";

const call = callWith();
const opened = perTest(copyRig);
const source = { kind: "volume", id: "v" } as const;
const spec = copyOf("c", source);

/** A source, and a connection that can take it. */
async function made() {
  const nfs = { driver: "zfs-generic-nfs" } as const;
  const { source: there, target: here } = await opened({ from: nfs, to: nfs });
  const [a, b] = [there.open(), here.open()];
  await there.write(await a.create(volumeOf("v"), call), "content");
  const protect = () => giving(a).protect(source, targetOf("c"), 0, call);
  return { here, a, b, protect };
}

test("a copy that another controller has finished meanwhile begins no second one, and the next request finds it", async () => {
  const { here, a, b, protect } = await made();
  const volume = await copied(a, b, spec, source);
  const moment = await protect();
  const begin = (of: CopySpec = spec) => taking(b).begin(of, moment, "record", call);
  const late = begin();
  expect(await codeOf(late)).toBe("aborted");
  await expect(late).rejects.toThrow("was created meanwhile");
  expect(await codeOf(begin(copyOf("c", { kind: "volume", id: "w" })))).toBe("failed-precondition");
  here.fake.zfs("inherit", "democratic-csi:provision_success", "tank/k/v/c");
  expect(await codeOf(begin())).toBe("failed-precondition");
  here.fake.zfs("set", "democratic-csi:provision_success=true", "tank/k/v/c");
  expect(await taking(b).existing(spec, call)).toEqual(volume);
  expect(namesIn(here)).toEqual(["c"]);
});

test("a landing and its volume are content, and a record alone is none", async () => {
  const { here, a, b, protect } = await made();
  const moment = await protect();
  const { source: from, target: to } = streamsOf(a, b);
  const send = () => joined(from.open(moment, { kind: "whole" }, false), to.open("c", moment, false));
  const hasContent = () => taking(b).hasContent("c", call);
  const seen = [await hasContent()];
  await taking(b).begin(spec, moment, "record", call);
  seen.push(await hasContent());
  await send();
  seen.push(await hasContent());
  await taking(b).empty("c", call);
  seen.push(await hasContent());
  await send();
  await taking(b).land("c", spec, moment, call);
  seen.push(await hasContent());
  here.fake.zfs("inherit", "democratic-csi:provision_success", "tank/k/v/c");
  seen.push(await hasContent());
  expect(seen).toEqual([false, false, true, false, true, true]);
});

test("a copy stays cancelled whatever is noted, until its record goes", async () => {
  const { a, b, protect } = await made();
  expect(await codeOf(taking(b).cancel("c", call))).toBe("not-found");
  const moment = await protect();
  const begin = () => taking(b).begin(spec, moment, "record", call);
  await begin();
  await taking(b).cancel("c", call);
  await taking(b).cancel("c", call);
  await taking(b).note("c", "noted", call);
  const marked = { id: "c", record: "noted", isCancelled: true };
  const all = [await taking(b).find("c", call), ...(await taking(b).landings(call)), await begin()];
  expect(all).toEqual([marked, marked, marked]);
  await taking(b).empty("c", call);
  expect(await taking(b).find("c", call)).toEqual(marked);
  await taking(b).drop("c", call);
  expect(await begin()).toEqual({ id: "c", record: "record" });
  await giving(a).release(targetOf("c"), undefined, call);
});
