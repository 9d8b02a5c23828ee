import { expect, test } from "bun:test";
import type { CopySpec } from "../../../../lib/drivers/copying.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import {
  codeOf,
  copied,
  copyOf,
  copyRig,
  copySource,
  copyTarget,
  held,
  joined,
  namesIn,
  streamsOf,
  targetOf,
} from "./copy-rig.ts";

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
  const protect = () => copySource(a).protect(source, targetOf("c"), 0, call);
  return { here, a, b, protect };
}

test("a copy that another controller has finished meanwhile begins no second one, and the next request finds it", async () => {
  const { here, a, b, protect } = await made();
  const volume = await copied(a, b, spec, source);
  const snapshot = await protect();
  const begin = (of: CopySpec = spec) => copyTarget(b).begin(of, snapshot, "record", call);
  const late = begin();
  expect(await codeOf(late)).toBe("aborted");
  await expect(late).rejects.toThrow("was created meanwhile");
  expect(await codeOf(begin(copyOf("c", { kind: "volume", id: "w" })))).toBe("failed-precondition");
  here.fake.zfs("inherit", "democratic-csi:provision_success", "tank/k/v/c");
  expect(await codeOf(begin())).toBe("failed-precondition");
  here.fake.zfs("set", "democratic-csi:provision_success=true", "tank/k/v/c");
  expect(await copyTarget(b).existing(spec, call)).toEqual(volume);
  expect(namesIn(here)).toEqual(["c"]);
});

test("a landing and its volume are content, and a record alone is none", async () => {
  const { here, a, b, protect } = await made();
  const snapshot = await protect();
  const { source: from, target: to } = streamsOf(a, b);
  const send = () => joined(from.open(snapshot, { kind: "whole" }, false), to.open("c", snapshot, false));
  const hasContent = () => copyTarget(b).hasContent("c", call);
  const seen = [await hasContent()];
  await copyTarget(b).begin(spec, snapshot, "record", call);
  seen.push(await hasContent());
  await send();
  seen.push(await hasContent());
  await copyTarget(b).empty("c", call);
  seen.push(await hasContent());
  await send();
  await copyTarget(b).finish("c", spec, snapshot, held, call);
  seen.push(await hasContent());
  here.fake.zfs("inherit", "democratic-csi:provision_success", "tank/k/v/c");
  seen.push(await hasContent());
  expect(seen).toEqual([false, false, true, false, true, true]);
});

test("a copy stays cancelled whatever is noted, until its record goes", async () => {
  const { a, b, protect } = await made();
  expect(await codeOf(copyTarget(b).markCancelled("c", call))).toBe("not-found");
  const snapshot = await protect();
  const begin = () => copyTarget(b).begin(spec, snapshot, "record", call);
  await begin();
  await copyTarget(b).markCancelled("c", call);
  await copyTarget(b).markCancelled("c", call);
  await copyTarget(b).note("c", "noted", call);
  const marked = { id: "c", record: "noted", isCancelled: true };
  const all = [await copyTarget(b).find("c", call), ...(await copyTarget(b).copies(call)), await begin()];
  expect(all).toEqual([marked, marked, marked]);
  await copyTarget(b).empty("c", call);
  expect(await copyTarget(b).find("c", call)).toEqual(marked);
  await copyTarget(b).drop("c", call);
  expect(await begin()).toEqual({ id: "c", record: "record" });
  await copySource(a).release(targetOf("c"), undefined, call);
});
