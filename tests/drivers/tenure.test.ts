import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import {
  type Candidate,
  decided,
  type Tenure,
  tenantOf,
  tenureIn,
  tenureText,
  type Wanted,
} from "../../lib/drivers/tenure.ts";

// Whose a volume is, and who may have it again. A wrong adoption hands the data of one person to another one.

const gib = 1n << 30n;
const tenure: Tenure = {
  ...{ claim: "shop/data-db-0", holder: "pvc-old", shape: "mount:ext4", retain: true, instance: "east" },
  released: "guid-1",
};
const perfect: Candidate = {
  ...{ id: "v:nas/pvc-old", bytes: gib, tenure, identity: "guid-1", instance: "east" },
  ...{ isNamesake: false, shape: "mount:ext4", unreachable: undefined },
};
const wanted: Wanted = {
  ...{ claim: "shop/data-db-0", holder: "pvc-new", exists: false },
  range: { required: gib, limit: undefined },
};

const but = (more: Partial<Candidate>, own: Partial<Tenure> = {}): Candidate => ({
  ...perfect,
  ...more,
  tenure: { ...tenure, ...own },
});

test("a volume that its claim has given up is adopted if nothing speaks against it", () => {
  expect(decided(wanted, [perfect])).toEqual({ kind: "adopt", volume: perfect });
  expect(decided(wanted, [but({ bytes: 0n })])).toMatchObject({ kind: "adopt" });
  expect(decided({ ...wanted, range: { required: undefined, limit: undefined } }, [perfect])).toMatchObject({
    kind: "adopt",
  });
  expect(decided({ ...wanted, range: { required: gib, limit: gib } }, [perfect])).toMatchObject({ kind: "adopt" });
  expect(decided({ ...wanted, range: { required: 1n, limit: undefined } }, [perfect])).toMatchObject({ kind: "adopt" });
});

const misses: readonly (readonly [what: string, candidate: Candidate])[] = [
  ["the same name in another namespace", but({}, { claim: "test/data-db-0" })],
  ["another name in the namespace", but({}, { claim: "shop/data-db-1" })],
  ["a name that only begins the same", but({}, { claim: "shop/data-db-01" })],
  ["namespace and name in other places", but({}, { claim: "data-db-0/shop" })],
  ["another case", but({}, { claim: "Shop/data-db-0" })],
  ["no claim", but({}, { claim: undefined })],
  ["an empty claim", but({}, { claim: "" })],
  ["not given up", but({}, { released: undefined })],
  ["not given up, and of another holder", but({}, { released: undefined, holder: "pvc-other" })],
  ["given up without an identity", but({ identity: "" }, { released: "" })],
  ["the storage shows no identity", but({ identity: "" })],
  ["a copy of what was given up", but({ identity: "guid-2" })],
  ["an identity that begins the same", but({ identity: "guid-12" })],
  ["another instance_id", but({}, { instance: "west" })],
  ["made without an instance_id", but({}, { instance: undefined })],
  ["a connection without an instance_id", but({ instance: undefined })],
  ["neither has an instance_id", but({ instance: undefined }, { instance: undefined })],
  ["the connection has another instance_id by now", but({ instance: "west" })],
  ["too small", but({ bytes: gib - 1n })],
  ["a block volume", but({}, { shape: "block" })],
  ["another file system", but({}, { shape: "mount:xfs" })],
  ["a file system of the storage", but({}, { shape: "mount" })],
  ["a block volume is asked for", but({ shape: "block" })],
  ["another file system is asked for", but({ shape: "mount:xfs" })],
  ["both kinds were asked for", but({}, { shape: "block+mount:ext4" })],
  ["out of reach of the node", but({ unreachable: "it is reachable only from zone a" })],
  ["its access modes are not allowed", but({ unreachable: "access mode is not allowed" })],
  ["a text that csimux did not write", but({}, tenureIn("shop/data-db-0"))],
  ["a text with fields of other kinds", but({}, tenureIn(JSON.stringify({ ...tenure, retain: "yes" })))],
  ["a list", but({}, tenureIn(JSON.stringify([tenure])))],
  ["half a text", but({}, tenureIn(tenureText(tenure).slice(0, -2)))],
];

test.each(misses)("near miss: %s", (_, candidate) => {
  expect(decided(wanted, [candidate])).toMatchObject({ kind: "new" });
});

const requests: readonly (readonly [what: string, wanted: Wanted])[] = [
  ["a larger volume is asked for", { ...wanted, range: { required: gib + 1n, limit: undefined } }],
  ["a smaller volume is the most", { ...wanted, range: { required: 1n, limit: gib - 1n } }],
  ["another claim", { ...wanted, claim: "shop/data-db-2" }],
  ["no claim", { ...wanted, claim: undefined }],
  ["an empty claim", { ...wanted, claim: "" }],
  ["the volume of this request exists already, perhaps unfinished", { ...wanted, exists: true }],
];

test.each(requests)("near miss of a request: %s", (_, other) => {
  expect(decided(other, [perfect])).toMatchObject({ kind: "new" });
});

test("there are at least thirty near misses", () => {
  expect(misses.length + requests.length).toBeGreaterThanOrEqual(30);
});

test("of several, none is adopted, and all are named; those that do not fit do not count", () => {
  const other = but({ id: "v:nas2/pvc-older", identity: "guid-2" }, { released: "guid-2" });
  const decision = decided(wanted, [perfect, other]);
  expect(decision).toMatchObject({ kind: "refused" });
  for (const id of ["v:nas/pvc-old", "v:nas2/pvc-older"]) expect(JSON.stringify(decision)).toContain(id);
  expect(decided(wanted, [...misses.map(([, each]) => each), perfect])).toEqual({ kind: "adopt", volume: perfect });
});

test("a repeated request has what it has adopted, also if more is free by then, and nothing else", () => {
  const own = but({ id: "v:nas/own" }, { released: undefined, holder: "pvc-new" });
  expect(decided(wanted, [perfect, own])).toEqual({ kind: "adopt", volume: own });
  expect(decided({ ...wanted, exists: true }, [own])).toEqual({ kind: "adopt", volume: own });
  expect(decided(wanted, [own, { ...own, id: "v:nas/twin" }])).toMatchObject({ kind: "refused" });
  expect(decided({ ...wanted, range: { required: 2n * gib, limit: undefined } }, [own, perfect])).toMatchObject({
    kind: "refused",
  });
  // The volume that was made for it is not one that it has adopted.
  expect(decided({ ...wanted, exists: true }, [{ ...own, isNamesake: true }, perfect])).toEqual({
    kind: "new",
    passed: [],
  });
});

test("a text is read as it was written, and another one keeps its volume and names no claim", () => {
  for (const each of [tenure, { ...tenure, claim: undefined, instance: undefined, released: undefined }])
    expect(tenureText(tenureIn(tenureText(each)) ?? tenure)).toBe(tenureText(each));
  expect(tenureIn(undefined)).toBeUndefined();
  for (const text of ["", "{", "[]", "null", "{}", '{"claim":"a/b"}'])
    expect(tenureIn(text)).toMatchObject({ claim: undefined, retain: true, holder: "" });
});

const claim = { "csi.storage.k8s.io/pvc/namespace": "shop", "csi.storage.k8s.io/pvc/name": "data" };
const capability = (kind: "mount" | "block", fsType?: string) => ({
  ...({ kind, fsType, mountFlags: [], mountGroup: undefined, mode: "single-node-writer" } as const),
});

test("what is recorded of a request", () => {
  const of = (parameters: object, isDisk = true, all = [capability("mount")]) =>
    tenantOf("pvc-1", { ...parameters }, all, isDisk);
  expect(of({})).toBeUndefined();
  expect(of({ "csi.storage.k8s.io/pvc/name": "data" })).toBeUndefined();
  expect(of(claim)).toEqual({ claim: "shop/data", holder: "pvc-1", shape: "mount:ext4", retain: false });
  expect(of({ ...claim, deleteStrategy: "retain" }, false)).toMatchObject({ shape: "mount", retain: true });
  expect(of({ deleteStrategy: "retain" })).toMatchObject({ claim: undefined, retain: true });
  expect(of(claim, true, [capability("block")])).toMatchObject({ shape: "block" });
  expect(of(claim, true, [capability("mount", "xfs"), capability("block")])).toMatchObject({
    shape: "block+mount:xfs",
  });
  for (const wrong of [{ adopt: "true" }, { deleteStrategy: "keep" }, { adopt: "byClaim" }, { adopt: "byclaim" }])
    expect(() => of(wrong)).toThrow(CsiError);
});
