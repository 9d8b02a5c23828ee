import { expect, test } from "bun:test";
import { accessModes, type Protocol, protocols, unmet } from "../../lib/core/access.ts";
import { ManualDriver } from "../../lib/drivers/node-manual/driver.ts";

const driver = new ManualDriver({ connection: "hand" });

test("a connection of volumes made by hand makes none, and says of none that it was deleted", async () => {
  await expect(driver.create()).rejects.toMatchObject({
    code: "invalid-argument",
    message: expect.stringContaining('connection "hand" creates no volumes'),
  });
  await expect(driver.delete("share-1")).rejects.toMatchObject({
    code: "failed-precondition",
    message: expect.stringContaining('volume "share-1" is kept'),
  });
  expect(await driver.check()).toBeUndefined();
});

test("and offers no ability of a driver that makes volumes", () => {
  expect(Object.keys(driver).sort()).toEqual(["access", "protocol"]);
});

test("a volume of any protocol may be described, with what a node can use it for", () => {
  const wanted = { mountFlags: [], mountGroup: undefined, mode: "single-node-writer" } as const;
  for (const kind of ["mount", "block"] as const) {
    for (const mode of accessModes)
      expect(unmet(driver.access, { ...wanted, mode, kind, fsType: "xfs" })).toBeUndefined();
  }
  const refused = (kind: "mount" | "block", fsType: string | undefined): readonly string[] =>
    (Object.keys(protocols) as Protocol[]).filter(name => unmet(protocols[name], { ...wanted, kind, fsType }));
  expect(refused("mount", undefined)).toEqual([]);
  expect(refused("mount", "xfs")).toEqual(["nfs", "smb", "lustre", "objectivefs", "oneclient"]);
  expect(refused("mount", "zfs")).not.toContain("zfs-local");
  expect(refused("block", undefined)).toEqual(["nfs", "smb", "lustre", "hostpath", "objectivefs", "oneclient"]);
});
