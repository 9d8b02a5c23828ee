import { expect, test } from "bun:test";
import { type CopySpec, maxRecordBytes, type SourceSnapshot } from "../../../../lib/drivers/copying.ts";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { openZfs, type ZfsOptions } from "../zfs-rig.ts";
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
  protectedOn,
  source,
  streamsOf,
  targetOf,
} from "./copy-rig.ts";

const call = callWith();
const opened = perTest(copyRig);
const nfs: ZfsOptions = { driver: "zfs-generic-nfs" };
const iscsi: ZfsOptions = { driver: "zfs-generic-iscsi" };
const spec = copyOf("c", source);

/** A snapshot of a volume, and a connection that can take it. */
const made = async (from: ZfsOptions = nfs, to: ZfsOptions = from) => protectedOn(await opened({ from, to }));

const begin = (driver: Driver, snapshot: SourceSnapshot, record = "record", of: CopySpec = spec) =>
  copyTarget(driver).begin(of, snapshot, record, call);
const sent = (a: Driver, b: Driver, snapshot: SourceSnapshot, basic = false) => {
  const { source: from, target: to } = streamsOf(a, b);
  return joined(from.open(snapshot, { kind: "whole" }, basic), to.open("c", snapshot, false));
};

const landed = (driver: Driver, snapshot: SourceSnapshot, of: CopySpec = spec) =>
  copyTarget(driver).finish("c", of, snapshot, held, call);

test("a record keeps any text, the first one until it is replaced, and is found without its landing", async () => {
  const { here, b, snapshot } = await made();
  const text = `{"a":"tab\t line\n quote' $HOME \u0000 é ☃"} =,;`;
  expect(await begin(b, snapshot, text)).toEqual({ id: "c", record: text });
  expect(await begin(b, snapshot, "another")).toEqual({ id: "c", record: text });
  expect(await copyTarget(here.open()).copies(call)).toEqual([{ id: "c", record: text }]);
  const longest = "é".repeat(maxRecordBytes / 2);
  await copyTarget(b).note("c", longest, call);
  expect(await copyTarget(b).find("c", call)).toEqual({ id: "c", record: longest });
  expect(await codeOf(copyTarget(b).note("c", `${longest}x`, call))).toBe("invalid-argument");
  expect(await codeOf(copyTarget(b).note("d", "record", call))).toBe("not-found");
  expect(await copyTarget(b).find("d", call)).toBeUndefined();
  await copyTarget(b).drop("c", call);
  await copyTarget(b).drop("c", call);
  expect([namesIn(here), await copyTarget(b).copies(call)]).toEqual([[], []]);
});

test("a landing can be emptied, and its record stays until it is dropped", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  await sent(a, b, snapshot);
  for (const _ of [1, 2]) {
    await copyTarget(b).empty("c", call);
    expect(namesIn(here)).toEqual(["csimux-copy-c"]);
  }
  expect(await copyTarget(b).find("c", call)).toMatchObject({ id: "c" });
  await copyTarget(b).drop("c", call);
  expect(namesIn(here)).toEqual([]);
  await copyTarget(b).empty("c", call);
  expect(namesIn(here)).toEqual([]);
});

test("neither a record nor a landing is a volume: nothing lists, counts, adopts, finds, deletes or mounts one", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  await sent(a, b, snapshot);
  const names = namesIn(here);
  expect(names.filter(name => !name.includes("@"))).toEqual(["csimux-copy-c", "csimux-land-c"]);
  expect(await volumeIds(b)).toEqual([]);
  expect(await b.health?.look(call)).toMatchObject({ storage: [], example: undefined });
  for (const id of ["csimux-copy-c", "csimux-land-c"]) {
    expect(await codeOf(b.reading?.get(id, call) ?? Promise.resolve())).toBe("not-found");
    expect(await codeOf(b.adoption?.adopt(`tank/k/v/${id}`, true, call) ?? Promise.resolve())).toBe(
      "failed-precondition",
    );
    await b.delete(id, call);
    expect(here.fake.find(`tank/k/v/${id}`)).toMatchObject({ type: "filesystem" });
    expect(here.fake.find(`tank/k/v/${id}`)?.mounted ?? false).toBe(false);
    expect(here.fake.find(`tank/k/v/${id}`)?.own).toMatchObject({
      mountpoint: { value: "none" },
      sharenfs: { value: "off" },
    });
    expect((await b.create(volumeOf(id), call)).id).not.toBe(id);
  }
  // Nor does the deletion of a volume that does not exist yet remove what is being copied for it.
  await b.delete("c", call);
  expect(namesIn(here)).toEqual(expect.arrayContaining([...names]));
});

test("zvols are received without devices", async () => {
  const { here, a, b, snapshot } = await made(iscsi);
  await begin(b, snapshot);
  await sent(a, b, snapshot);
  expect(here.fake.find("tank/k/v/csimux-land-c")?.own["volmode"]?.value).toBe("none");
  await landed(b, snapshot);
  expect(here.fake.find("tank/k/v/c")?.own["volmode"]).toBeUndefined();
});

const foreign = ["csimux-copy-c", "csimux-land-c", "c"] as const;

test.each(foreign)("a dataset that a person made as %s is never used, changed or removed", async name => {
  const { here, b, snapshot } = await made();
  const dataset = `tank/k/v/${name}`;
  here.fake.zfs("create", "-p", dataset);
  const before = structuredClone(here.fake.find(dataset));
  expect(await codeOf(begin(b, snapshot))).toBe("failed-precondition");
  await copyTarget(b)
    .drop("c", call)
    .catch(() => {});
  await copyTarget(b)
    .forget("c", call)
    .catch(() => {});
  expect(here.fake.find(dataset)).toEqual(before as never);
  expect(await copyTarget(b).copies(call)).toEqual([]);
});

test.each(foreign)("nor is one that appears as %s after the beginning", async name => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  if (name !== "csimux-land-c") await sent(a, b, snapshot);
  if (name === "csimux-copy-c") here.fake.zfs("destroy", "tank/k/v/csimux-copy-c");
  here.fake.zfs("create", `tank/k/v/${name}`);
  const before = structuredClone(here.fake.find(`tank/k/v/${name}`));
  expect(await codeOf(landed(b, snapshot))).toBe("failed-precondition");
  const { target } = streamsOf(a, b);
  if (name !== "c") {
    expect(await codeOf(target.state("c", call))).toBe("failed-precondition");
    expect(await codeOf(target.discard("c", call))).toBe("failed-precondition");
    expect(await codeOf(target.stop("c", call))).toBe("failed-precondition");
  }
  await expect(
    joined({ ...target.open("c", snapshot, true), argv: ["true"] }, target.open("c", snapshot, true)),
  ).rejects.toThrow(name === "csimux-land-c" ? "not the target" : "");
  await copyTarget(b)
    .drop("c", call)
    .catch(() => {});
  expect(here.fake.find(`tank/k/v/${name}`)).toEqual(before as never);
});

test("records and landings of another connection with the same parent are neither found nor touched", async () => {
  const { here, a, snapshot } = await made(nfs, { ...nfs, instanceId: "one" });
  const on = (instanceId: string) => openZfs({ ...nfs, instanceId, folder: here.fake.folder }, here.host);
  const [one, two] = [on("one"), on("two")];
  await begin(one, snapshot);
  await sent(a, one, snapshot);
  const before = namesIn(here);
  expect([await copyTarget(two).copies(call), await copyTarget(two).find("c", call)]).toEqual([[], undefined]);
  for (const done of [
    () => begin(two, snapshot),
    () => copyTarget(two).drop("c", call),
    () => copyTarget(two).forget("c", call),
    () => landed(two, snapshot),
  ])
    expect(await codeOf(done())).toBe("failed-precondition");
  expect(namesIn(here)).toEqual(before);
  expect((await landed(one, snapshot)).id).toBe("c");
});

test("two controllers that begin and finish at once make one volume", async () => {
  const { here, a, b, snapshot } = await made(iscsi);
  const other = here.open();
  const begun = await Promise.all([begin(b, snapshot, "one"), begin(other, snapshot, "two")]);
  expect(begun[0]).toEqual(begun[1] as never);
  await sent(a, b, snapshot);
  const ends = await Promise.allSettled([landed(b, snapshot), landed(other, snapshot)]);
  expect(ends.some(({ status }) => status === "fulfilled")).toBe(true);
  expect(await here.read(await landed(b, snapshot))).toBe("content");
  for (const driver of [b, other]) await copyTarget(driver).forget("c", call);
  expect(namesIn(here)).toEqual(["c"]);
});

test("only a landing with exactly the snapshot is landed", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  expect(await codeOf(landed(b, snapshot))).toBe("aborted");
  await sent(a, b, snapshot);
  expect(await codeOf(landed(b, { ...snapshot, proof: "42" }))).toBe("failed-precondition");
  expect(await codeOf(landed(b, { ...snapshot, proof: "" }))).toBe("failed-precondition");
  here.fake.with(pools => {
    const landing = pools.find("tank/k/v/csimux-land-c");
    const theirs = pools.find("tank/k");
    if (landing && theirs) pools.copyContent(theirs, landing);
  });
  const done = landed(b, snapshot);
  expect(await codeOf(done)).toBe("failed-precondition");
  await expect(done).rejects.toThrow("were written since");
  expect(await volumeIds(b)).toEqual([]);
});

test("a landing that a loss of power left without its marks is continued by its token, and no other one is touched", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  const { source: from, target: to } = streamsOf(a, b);
  here.fake.zfs("set", "democratic-csi:volume_context_provisioner_driver=zfs-generic-nfs", "tank");
  const broken = async (of: SourceSnapshot) => {
    const [send, receive] = [from.open(of, { kind: "whole" }, false), to.open("c", of, false)];
    await expect(joined(send, receive, 3000)).rejects.toThrow("incomplete stream");
    here.fake.with(pools => {
      const landing = pools.find("tank/k/v/csimux-land-c");
      if (landing) landing.own = {};
    });
    return to.state("c", call);
  };
  const state = await broken(snapshot);
  expect(state).toMatchObject({ kind: "partial", proof: snapshot.proof });
  expect(await codeOf(landed(b, snapshot))).toBe("failed-precondition");
  expect(await begin(b, snapshot, "another")).toEqual({ id: "c", record: "record" });
  const token = state.kind === "partial" ? state.token : "";
  await joined(from.open(snapshot, { kind: "token", token }, false), to.open("c", snapshot, false));
  expect(await here.read(await landed(b, snapshot))).toBe("content");
  await b.delete("c", call);
  await copyTarget(b).forget("c", call);
  await begin(b, snapshot);
  const other = await copySource(a).protect(source, targetOf("d"), 0, call);
  expect(await broken(other)).toMatchObject({ kind: "partial", proof: other.proof });
  expect(await codeOf(to.discard("c", call))).toBe("failed-precondition");
  expect(namesIn(here)).toContain("csimux-land-c");
  here.fake.zfs("destroy", "tank/k/v/csimux-copy-c");
  expect(await codeOf(to.state("c", call))).toBe("failed-precondition");
});

test("a finished copy is answered to the same request, and refused to any other", async () => {
  const { a, b } = await made();
  const volume = await copied(a, b, spec, source);
  expect(await copyTarget(b).existing(spec, call)).toEqual(volume);
  expect(await copyTarget(b).existing(copyOf("d", source), call)).toBeUndefined();
  const others: readonly CopySpec[] = [copyOf("c", { kind: "volume", id: "w" }), copyOf("c", source, 2n * gib)];
  for (const other of others) expect(await codeOf(copyTarget(b).existing(other, call))).toBe("already-exists");
  expect(await codeOf(b.create(volumeOf("c"), call))).toBe("already-exists");
  await b.create(volumeOf("plain"), call);
  expect(await codeOf(copyTarget(b).existing(copyOf("plain", source), call))).toBe("already-exists");
  expect(await codeOf(copyTarget(b).drop("c", call))).toBe("failed-precondition");
  expect(await volumeIds(b)).toEqual(["c", "plain"]);
});

test("a copy that has its name and not its share is not taken for an empty volume", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  await sent(a, b, snapshot);
  await landed(b, snapshot);
  here.fake.zfs("inherit", "democratic-csi:provision_success", "tank/k/v/c");
  expect(await volumeIds(b)).toEqual([]);
  expect(await codeOf(b.create(volumeOf("c"), call))).toBe("already-exists");
  expect(await streamsOf(a, b).target.state("c", call)).toEqual({ kind: "whole", proof: snapshot.proof });
  expect(await here.read(await landed(b, snapshot))).toBe("content");
});

test("a receive that a dead process left is seen, and ended by its landing's name alone", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  await expect(joined(...halfOf(a, b, snapshot), 3000)).rejects.toThrow("incomplete");
  here.fake.faults({ receiving: ["tank/k/v/csimux-land-c", "tank/k/v/csimux-land-cc"] });
  const { target } = streamsOf(a, b);
  expect(await target.state("c", call)).toEqual({ kind: "busy" });
  await target.stop("c", call);
  expect(await target.state("c", call)).toMatchObject({ kind: "partial", proof: snapshot.proof });
  expect(here.fake.with(({ state }) => state.faults.receiving)).toEqual(["tank/k/v/csimux-land-cc"]);
});

const halfOf = (a: Driver, b: Driver, snapshot: SourceSnapshot) => {
  const { source: from, target: to } = streamsOf(a, b);
  return [from.open(snapshot, { kind: "whole" }, false), to.open("c", snapshot, false)] as const;
};

test("a pool without the features of a stream takes a basic one", async () => {
  const { here, a, b, snapshot } = await made();
  await begin(b, snapshot);
  here.fake.faults({ oldPool: true });
  await expect(sent(a, b, snapshot)).rejects.toThrow("pool must be upgraded");
  expect(await streamsOf(a, b).target.state("c", call)).toEqual({ kind: "nothing" });
  await sent(a, b, snapshot, true);
  expect(await here.read(await landed(b, snapshot))).toBe("content");
});

test("a copy does not take over the usershare of a volume that was made while it was received", async () => {
  const { here, a, b, snapshot } = await made({ driver: "zfs-generic-smb" });
  await begin(b, snapshot);
  await sent(a, b, snapshot);
  const other = await b.create(volumeOf("C"), call);
  expect(await codeOf(landed(b, snapshot))).toBe("failed-precondition");
  await copyTarget(b).drop("c", call);
  expect([namesIn(here), await volumeIds(b)]).toEqual([["C"], [other.id]]);
});
