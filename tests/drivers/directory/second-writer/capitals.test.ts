import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import type { SourceSnapshot } from "../../../../lib/drivers/copying.ts";
import { type Files, localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, findVolume, getVolume, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { leftOn, openOn, temporaryFolder } from "../directory-rig.ts";

const call = callWith();

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

type Verb = (path: string, ...more: readonly unknown[]) => Promise<unknown>;

/** The files of a server for which "data" and "Data" are one name, as for most of SMB (mount.cifs(8), "nocase"). */
const folding = (): Files => {
  const folded = (path: unknown) =>
    typeof path === "string" ? path.replace(/(\/(?:[vs][/.]_?|copies\/|work\/c~))data(?=$|[/.~])/, "$1Data") : path;
  const verbs = Object.entries(localFiles as unknown as Readonly<Record<string, Verb>>);
  const all = verbs.map(([name, verb]) => {
    const own: Verb = (path, ...more) => verb(String(folded(path)), ...more.map(folded));
    return [name, own] as const;
  });
  return Object.fromEntries(all) as unknown as Files;
};

const opened = () =>
  openOn(base, { kind: "smb-client", settings: { requireMount: false, shareHost: "nas" }, files: folding() });

test("a late deletion of a volume does not delete one that was made since and whose name has other capitals", async () => {
  await opened().create(volumeOf("data"), call);
  await opened().delete("data", call);
  await opened().create(volumeOf("Data"), call);
  await writeFile(`${base}/v/Data/file`, "kept");
  expect(await codeOf(opened().delete("data", call))).toBe("ok");
  expect(await readFile(`${base}/v/Data/file`, "utf8")).toBe("kept");
  expect(await getVolume(opened(), "Data")).toMatchObject({ bytes: gib });
  await opened().delete("Data", call);
  expect(await leftOn(base)).toEqual([]);
});

test("a late deletion of a snapshot does not delete one whose name has other capitals", async () => {
  await opened().create(volumeOf("a"), call);
  const taken = await snapshotsOf(opened()).create("Data", "a", {}, call);
  await snapshotsOf(opened()).delete("f/data", call);
  expect(await snapshotsOf(opened()).get(taken.id, call)).toEqual(taken);
});

test("a volume is not found, grown or copied by a name with other capitals", async () => {
  await opened().create(volumeOf("Data"), call);
  const driver = opened();
  expect(await findVolume(driver, "data")).toBeUndefined();
  expect(await codeOf(getVolume(driver, "data"))).toBe("not-found");
  const grown = driver.expand?.expand("data", { required: 2n * gib, limit: undefined }, call);
  expect(await codeOf(grown ?? Promise.resolve())).toBe("not-found");
  expect(await codeOf(driver.create(volumeOf("b", gib, { kind: "volume", id: "data" }), call))).toBe("not-found");
  expect(await codeOf(driver.create(volumeOf("data"), call))).toBe("already-exists");
});

test("a snapshot is not found or copied by a name with other capitals", async () => {
  await opened().create(volumeOf("a"), call);
  const taken = await snapshotsOf(opened()).create("Data", "a", {}, call);
  expect(await codeOf(snapshotsOf(opened()).get("f/data", call))).toBe("not-found");
  const copied = opened().create(volumeOf("b", gib, { kind: "snapshot", id: "f/data" }), call);
  expect(await codeOf(copied)).toBe("not-found");
  await opened().create(volumeOf("b", gib, { kind: "snapshot", id: taken.id }), call);
});

const origin = { kind: "volume", handle: "v:far/origin" } as const;
const moment: SourceSnapshot = {
  ...{ name: "", proof: "", bytes: gib, toSend: 0n, stable: true, methods: ["rsync"] as const },
  traits: { encrypted: undefined, blockBytes: 0n, fixed: {} },
};
const copyOf = (name: string) => ({ ...volumeOf(name), origin });

test("a copy is not found, cancelled or continued by a name with other capitals", async () => {
  const target = opened().copyTarget;
  await target?.begin(copyOf("Data"), moment, "record", call);
  expect(await target?.find("data", call)).toBeUndefined();
  await target?.drop("data", call);
  expect(await codeOf(opened().delete("data", call))).toBe("ok");
  expect(await codeOf(target?.begin(copyOf("data"), moment, "record", call) ?? Promise.resolve())).toBe(
    "already-exists",
  );
  expect(await target?.find("Data", call)).toMatchObject({ id: "Data", record: "record" });
});

test("no copy begins whose name differs from a volume's only in capitals", async () => {
  await opened().create(volumeOf("Data"), call);
  const begun = opened().copyTarget?.begin(copyOf("data"), moment, "record", call);
  expect(await codeOf(begun ?? Promise.resolve())).toBe("already-exists");
});

test("a volume of democratic-csi, which has no record, is not made or deleted by a name with other capitals", async () => {
  await mkdir(`${base}/v/Data`, { recursive: true });
  await writeFile(`${base}/v/Data/file`, "kept");
  expect(await codeOf(opened().create(volumeOf("data"), call))).toBe("already-exists");
  expect(await codeOf(opened().delete("data", call))).toBe("ok");
  expect(await readFile(`${base}/v/Data/file`, "utf8")).toBe("kept");
  await opened().delete("Data", call);
  expect(await leftOn(base)).toEqual([]);
});
