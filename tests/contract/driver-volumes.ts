import { expect } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { everything } from "../sample.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, findVolume, getVolume, gib, hostileIds, volumeIds, volumeOf } from "./rig.ts";

const call = callWith();

/** The code of the error that a promise rejects with; "ok" when it resolves. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "ok";
  } catch (error) {
    return error instanceof CsiError ? error.code : `no CsiError: ${error}`;
  }
}

/** The message of the error that a promise rejects with; "ok" when it resolves. */
export const messageOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "ok",
    (error: Error) => error.message,
  );

export const volumeCases: Cases = {
  "a repeated create returns the same volume": needing("inventory")(async rig => {
    const driver = rig.open();
    const first = await driver.create(volumeOf("pvc-1"), call);
    expect(await driver.create(volumeOf("pvc-1"), call)).toEqual(first);
    expect(await rig.open().create(volumeOf("pvc-1"), call)).toEqual(first);
    expect(first.bytes).toBe(gib);
    expect(await volumeIds(driver)).toEqual([first.id]);
  }),

  "a create with another size is refused, one whose range includes the size is not": needing()(async rig => {
    const driver = rig.open();
    await driver.create(volumeOf("pvc-1"), call);
    expect(await codeOf(driver.create(volumeOf("pvc-1", 2n * gib), call))).toBe("already-exists");
    const wide = { ...volumeOf("pvc-1"), range: { required: 1n, limit: 5n * gib } };
    expect((await driver.create(wide, call)).bytes).toBe(gib);
  }),

  "a range that cannot be met is out of range": needing()(async rig => {
    const spec = { ...volumeOf("pvc-1"), range: { required: 2n, limit: 1n } };
    expect(await codeOf(rig.open().create(spec, call))).toBe("out-of-range");
    expect(await rig.remains()).toEqual([]);
  }),

  "names of any characters and 128 bytes give ids that fit and lead back to them": needing("names")(async rig => {
    const driver = rig.open();
    const names = ["x".repeat(128), "ö".repeat(64), "../../etc", "a b/c", ".", "-rf", "名前", "A", "a~b"];
    const made = [];
    for (const name of names) made.push(await driver.create(volumeOf(name), call));
    expect(new Set(made.map(({ id }) => id)).size).toBe(names.length);
    for (const [index, name] of names.entries()) expect(await findVolume(driver, name)).toEqual(made[index]);
    for (const { id } of made) await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "a deleted volume is gone and deleting it again succeeds": needing(
    "names",
    "reading",
  )(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    await driver.delete(id, call);
    await driver.delete(id, call);
    expect(await codeOf(getVolume(driver, id))).toBe("not-found");
    expect(await findVolume(driver, "pvc-1")).toBeUndefined();
    expect(await rig.remains()).toEqual([]);
  }),

  "a volume with content is deleted with all of it": needing()(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "content");
    await driver.delete(volume.id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "get, find and list answer exactly what create answered": needing(
    "names",
    "reading",
    "inventory",
  )(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    expect(await getVolume(driver, volume.id)).toEqual(volume);
    expect(await findVolume(driver, "pvc-1")).toEqual(volume);
    const page = await driver.inventory?.list({ token: undefined, max: 5 }, call);
    expect(page).toEqual({ items: [volume], next: undefined });
  }),

  "hostile ids exist nowhere and deleting them touches nothing": needing("reading")(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    for (const id of hostileIds) {
      expect([id, await codeOf(getVolume(driver, id))]).toEqual([id, "not-found"]);
      expect([id, await codeOf(driver.delete(id, call))]).toEqual([id, "ok"]);
    }
    expect(await getVolume(driver, volume.id)).toEqual(volume);
  }),

  "an expanded volume has the size asked for, never shrinks, and keeps it after a restart": needing(
    "expand",
    "reading",
  )(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    const to = (required: bigint) => driver.expand?.expand(id, { required, limit: undefined }, call);
    expect(await to(3n * gib)).toMatchObject({ bytes: 3n * gib });
    expect(await to(3n * gib)).toMatchObject({ bytes: 3n * gib });
    expect(await to(2n * gib)).toMatchObject({ bytes: 3n * gib });
    expect((await getVolume(rig.open(), id)).bytes).toBe(3n * gib);
    expect(
      await codeOf(rig.open().expand?.expand("absent", { required: 1n, limit: undefined }, call) ?? (call.id as never)),
    ).toBe("not-found");
  }),

  "a listing in pages holds every volume once, in a stable order": needing("inventory")(async rig => {
    const driver = rig.open();
    for (let n = 0; n < 7; n++) await driver.create(volumeOf(`pvc-${n}`), call);
    const seen: string[] = [];
    let token: string | undefined;
    do {
      const page = await driver.inventory?.list({ token, max: 3 }, call);
      seen.push(...(page?.items.map(({ id }) => id) ?? []));
      token = page?.next;
    } while (token !== undefined);
    expect(seen).toEqual([...(await volumeIds(driver))]);
    expect(new Set(seen).size).toBe(7);
  }),

  "a page token that is not of the listing is aborted": needing("inventory")(async rig => {
    const driver = rig.open();
    for (const token of ["invalid-token", "", "../x", ".", ">a"]) {
      expect([token, await codeOf(driver.inventory?.list({ token, max: 3 }, call) ?? Promise.resolve())]).toEqual([
        token,
        "aborted",
      ]);
    }
  }),

  "a clone holds the source's content, names its source, and is independent of it": needing(
    "clones",
    "clones survive their volume",
  )(async rig => {
    const driver = rig.open();
    const origin = await driver.create(volumeOf("origin"), call);
    await rig.write(origin, "one");
    const source = { kind: "volume", id: origin.id } as const;
    const clone = await driver.create(volumeOf("clone", gib, source), call);
    expect(clone.source).toEqual(source);
    expect(await driver.create(volumeOf("clone", gib, source), call)).toEqual(clone);
    await rig.write(origin, "two");
    expect(await rig.read(clone)).toBe("one");
    await driver.delete(origin.id, call);
    expect(await rig.read(clone)).toBe("one");
    await driver.delete(clone.id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "an existing volume is not taken for one with another source": needing("clones")(async rig => {
    const driver = rig.open();
    const a = await driver.create(volumeOf("a"), call);
    const b = await driver.create(volumeOf("b"), call);
    const from = (id: string) => volumeOf("clone", gib, { kind: "volume", id });
    await driver.create(from(a.id), call);
    expect(await codeOf(driver.create(from(b.id), call))).toBe("already-exists");
    expect(await codeOf(driver.create(volumeOf("clone"), call))).toBe("already-exists");
    expect(await codeOf(driver.create(volumeOf("a", gib, { kind: "volume", id: b.id }), call))).toBe("already-exists");
  }),

  "a missing source is not found and nothing is made": needing(
    "clones",
    "snapshots",
  )(async rig => {
    const driver = rig.open();
    for (const kind of ["volume", "snapshot"] as const) {
      const spec = volumeOf("clone", gib, { kind, id: "non-existing-id" });
      expect([kind, await codeOf(driver.create(spec, call))]).toEqual([kind, "not-found"]);
    }
    expect(await rig.remains()).toEqual([]);
  }),

  "a clone is at least as large as its source": needing("clones")(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("origin", 4n * gib), call);
    const source = { kind: "volume", id } as const;
    expect(await codeOf(driver.create(volumeOf("small", gib, source), call))).toBe("out-of-range");
    const open = { ...volumeOf("open", gib, source), range: { required: undefined, limit: undefined } };
    expect((await driver.create(open, call)).bytes).toBe(4n * gib);
    expect((await driver.create(volumeOf("large", 5n * gib, source), call)).bytes).toBe(5n * gib);
  }),

  "50 equal creates at once make one volume": needing("inventory")(async rig => {
    const driver = rig.open();
    const answers = await Promise.allSettled(Array.from({ length: 50 }, () => driver.create(volumeOf("pvc-1"), call)));
    const ids = answers.flatMap(answer => (answer.status === "fulfilled" ? [answer.value.id] : []));
    const codes = answers.flatMap(answer => (answer.status === "rejected" ? [(answer.reason as CsiError).code] : []));
    expect(new Set(ids).size).toBe(1);
    expect(codes.filter(code => code !== "aborted")).toEqual([]);
    expect(await volumeIds(driver)).toEqual([...new Set(ids)]);
  }),

  "volumes made and deleted at once leave nothing": needing()(async rig => {
    const driver = rig.open();
    const cycle = async (n: number) => {
      for (let round = 0; round < 3; round++)
        await driver.delete((await driver.create(volumeOf(`pvc-${n}`), call)).id, call);
    };
    await Promise.all(Array.from({ length: everything ? 30 : 8 }, (_, n) => cycle(n)));
    expect(await rig.remains()).toEqual([]);
  }),

  "a call that has ended changes nothing": needing()(async rig => {
    const ended = callWith(AbortSignal.abort());
    expect(await codeOf(rig.open().create(volumeOf("pvc-1"), ended))).toBe("deadline-exceeded");
    expect(await rig.remains()).toEqual([]);
  }),
};
