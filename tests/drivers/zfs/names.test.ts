import { expect, test } from "bun:test";
import { DatasetNames, isVolumeId, snapshotId } from "../../../lib/drivers/zfs/names.ts";

const names = new DatasetNames("tank/k8s/volumes", "tank/k8s/snapshots", 123);

test.each(["pvc-0d5e7e2c-9b1a-4d8e-8f0a-0c1d2e3f4a5b", "a", "A_b-9", "x".repeat(98)])(
  "%s is the id of its name",
  name => {
    expect(names.idOf(name)).toBe(name);
    expect(names.volumeOf(names.dataset(name))).toBe(name);
  },
);

test.each([
  "../../etc",
  "a b",
  "-r",
  "a@b",
  "a/b",
  "a%b",
  "a,b",
  "csimux-trash-1",
  "é",
  "x".repeat(128),
  "a\nb",
  "a#b",
  "$(id)",
])("the name %j gets an id that ZFS cannot misread", name => {
  const id = names.idOf(name);
  expect(isVolumeId(id)).toBe(true);
  expect(names.idOf(name)).toBe(id);
  expect(id).not.toBe(name);
});

test("names that get an id of their own never get that of another one", () => {
  const all = [
    "csimux-a",
    "x csimux-a",
    "x x csimux-a",
    " csimux-a",
    "x  csimux-a",
    "/csimux-a",
    "x /csimux-a",
    "csimux/a",
    "x csimux/a",
  ];
  expect(new Set(all.map(name => names.idOf(name))).size).toBe(all.length);
});

test("the names of everything that belongs to a volume fit into a name of ZFS and into a handle", () => {
  for (const parent of ["t", "tank/k8s/v", `tank/${"p".repeat(145)}`])
    for (const maxIdBytes of [62, 90, 124]) {
      const all = new DatasetNames(parent, `${parent}-s`, maxIdBytes);
      for (const text of ["pvc-0d5e7e2c-9b1a-4d8e-8f0a-0c1d2e3f4a5b", "x".repeat(128), "ü".repeat(64)]) {
        const volume = all.idOf(text);
        const snapshot = all.snapshotName("y".repeat(128), volume);
        const made = [
          all.sourceFor(all.dataset(volume), volume),
          all.sourceForSnapshot(volume, snapshot),
          all.snapshot({ volume, name: snapshot, detached: false }),
          all.snapshot({ volume, name: snapshot, detached: true }),
          all.staging(volume),
        ];
        for (const name of made) expect([name, name.length <= 255]).toEqual([name, true]);
        expect(`${volume}@${snapshot}`.length).toBeLessThanOrEqual(maxIdBytes);
        expect(snapshotId(`${volume}@${snapshot}`)).toEqual({ volume, name: snapshot, detached: false });
      }
    }
});

test("a parent that leaves no room is refused before anything is made", () => {
  expect(() => new DatasetNames(`tank/${"p".repeat(190)}`, "tank/s", 123)).toThrow("must be at most");
});

test.each([
  ...[
    "",
    "v",
    "@",
    "v@",
    "@n",
    "v/",
    "/n",
    "v@a@b",
    "v/a/b",
    "../v@n",
    "v@a,b",
    "v@a%b",
    "v@%",
    "v@-r",
    "v/..",
    "v/.",
    "-v@n",
    "v@a b",
  ],
  ...["v@a;id", "v@$(id)", "v@a\nb", "csimux-trash-1@n", "v#b", "v@a/b", `v@${"n".repeat(129)}`],
])("%j is not a snapshot", id => {
  expect(snapshotId(id)).toBeUndefined();
});

test("a snapshot never gets a name that csimux itself uses", () => {
  for (const name of ["volume-source-for-volume-x", "volume-source-for-snapshot-x", "csimux-x"])
    expect(names.snapshotName(name, "v")).not.toBe(name);
  expect(names.snapshotName("snapshot-1.2:3+4", "v")).toBe("snapshot-1.2:3+4");
});
