import { expect, test } from "bun:test";
import { type Access, type Capability, disk, firstUnmet, protocols } from "../../lib/core/access.ts";

const folder: Access = { kinds: ["mount"], filesystems: ["xfs"], sharedWriters: false };
const mount: Capability = {
  kind: "mount",
  fsType: undefined,
  mountFlags: [],
  mountGroup: undefined,
  mode: "single-node-writer",
};

test.each([
  ["none", [], undefined],
  ["what the volumes can do", [mount, { ...mount, fsType: "xfs" }], undefined],
  ["an access type that they lack", [mount, { ...mount, kind: "block" }], 'access type "block" is not supported'],
  ["another file system", [mount, { ...mount, fsType: "ext4" }], 'fs type "ext4" is not one of xfs'],
  [
    "two things that they lack: the first is named",
    [mount, { ...mount, mode: "multi-node-multi-writer" }, { ...mount, kind: "block" }],
    "several nodes cannot write to this kind of volume at once",
  ],
] as const)("of all requested capabilities: %s", (_, wanted, reason) => {
  expect(firstUnmet(folder, wanted)).toBe(reason);
});

test("a mounted disk is never for readers on other nodes than its writer, because every node would mount it to write", () => {
  const reader = { ...mount, mode: "multi-node-reader-only" } as const;
  const single = { ...mount, mode: "multi-node-single-writer" } as const;
  const reason = expect.stringContaining("other nodes cannot read this kind of volume while one writes to it");
  for (const wanted of [[mount, reader], [reader, mount], [single]]) {
    expect(firstUnmet(disk, wanted)).toEqual(reason);
    expect(firstUnmet(protocols.nfs, wanted)).toBeUndefined();
    const block = wanted.map(each => ({ ...each, kind: "block" }) as const);
    expect(firstUnmet(disk, block)).toBeUndefined();
  }
  expect(firstUnmet(disk, [reader, { ...mount, mode: "single-node-reader-only" }])).toBeUndefined();
});

test("a mode that the connection file omits is refused, wherever it is in the list", () => {
  const restricted: Access = { ...folder, modes: ["single-node-writer"] };
  expect(firstUnmet(restricted, [mount])).toBeUndefined();
  expect(firstUnmet(restricted, [mount, { ...mount, mode: "multi-node-reader-only" }])).toBe(
    "access mode multi-node-reader-only is not allowed by csi.access_modes",
  );
});
