import { describe, expect, test } from "bun:test";
import type { CopySpec, SourceSnapshot } from "../../../../lib/drivers/copying.ts";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib } from "../../../contract/rig.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { codeOf, copyOf, copyRig, copyTarget, namesIn, protectedOn, source } from "./copy-rig.ts";

const call = callWith();
const opened = perTest(copyRig);
const nfs: ZfsOptions = { driver: "zfs-generic-nfs" };
const iscsi: ZfsOptions = { driver: "zfs-generic-iscsi" };
const spec = copyOf("c", source);

/** A snapshot of a volume, and a connection that can take it. */
const made = async (from: ZfsOptions = nfs, to: ZfsOptions = from) => protectedOn(await opened({ from, to }));

const refused = async (driver: Driver, snapshot: SourceSnapshot, of: CopySpec = spec): Promise<string> =>
  codeOf(
    copyTarget(driver)
      .refusal("zfs-send", of, snapshot, call)
      .then(error => {
        if (error) throw error;
      }),
  );

describe("before anything is made, a copy is refused", () => {
  const fixed = (value: string) => ({ ...nfs, zfs: { datasetProperties: { casesensitivity: value } } });
  const parameters = (of: Record<string, string>): CopySpec => ({ ...spec, parameters: of });
  const cases: readonly (readonly [
    string,
    ZfsOptions,
    CopySpec,
    (snapshot: SourceSnapshot) => SourceSnapshot,
    string,
  ])[] = [
    ["with equal properties: not at all", nfs, spec, snapshot => snapshot, "none"],
    ["for a volume smaller than its source", nfs, copyOf("c", source, gib / 2n), snapshot => snapshot, "out-of-range"],
    ["by another method", nfs, spec, snapshot => snapshot, "invalid-argument"],
    [
      "for a property that a class may not choose",
      nfs,
      parameters({ "zfs.mountpoint": "/etc" }),
      snapshot => snapshot,
      "invalid-argument",
    ],
    ["for other cases of names", fixed("insensitive"), spec, snapshot => snapshot, "failed-precondition"],
    ["for equal cases of names: not", fixed("sensitive"), spec, snapshot => snapshot, "none"],
    [
      "for NFSv4 access control lists",
      nfs,
      spec,
      snapshot => ({ ...snapshot, traits: { ...snapshot.traits, fixed: { acltype: "nfsv4" } } }),
      "failed-precondition",
    ],
    [
      "from encryption into plain text",
      nfs,
      spec,
      snapshot => ({ ...snapshot, traits: { ...snapshot.traits, encrypted: true } }),
      "failed-precondition",
    ],
    [
      "without knowledge of its encryption",
      nfs,
      spec,
      snapshot => ({ ...snapshot, traits: { ...snapshot.traits, encrypted: undefined } }),
      "failed-precondition",
    ],
    [
      "where there is too little room",
      nfs,
      spec,
      snapshot => ({ ...snapshot, toSend: 2n ** 40n }),
      "resource-exhausted",
    ],
    [
      "for a class with encryption",
      nfs,
      parameters({ "zfs.encryption": "on" }),
      snapshot => snapshot,
      "failed-precondition",
    ],
  ];
  test.each(cases)("%s", async (title, to, of, change, code) => {
    const { here, b, snapshot } = await made(nfs, to);
    const before = namesIn(here);
    const method = title === "by another method" ? "rsync" : "zfs-send";
    const error = await copyTarget(b).refusal(method, of, change(snapshot), call);
    expect(error ? await codeOf(Promise.reject(error)) : "none").toBe(code);
    expect(namesIn(here)).toEqual(before);
  });

  test("of a zvol for another block size that the class asks for, or a size that whole blocks exceed", async () => {
    const { b, snapshot } = await made(iscsi);
    const blocks = (size: string): CopySpec => parameters({ "zfs.volblocksize": size });
    expect([await refused(b, snapshot, blocks("64K")), await refused(b, snapshot, blocks("16K"))]).toEqual([
      "failed-precondition",
      "none",
    ]);
    const uneven = { ...spec, range: { required: gib + 1n, limit: gib + 512n } };
    expect(await refused(b, snapshot, uneven)).toBe("out-of-range");
  });

  test("of a thick zvol without room for its whole size", async () => {
    const { b, snapshot } = await made(iscsi, { ...iscsi, zfs: { zvolEnableReservation: true } });
    expect(await refused(b, snapshot, copyOf("c", source, 2n ** 41n))).toBe("resource-exhausted");
    expect(await refused(b, snapshot)).toBe("none");
  });

  test("below a parent whose key is not loaded, and not for an encrypted one with it", async () => {
    const { here, b, snapshot } = await made();
    const encrypted = { ...snapshot, traits: { ...snapshot.traits, encrypted: true } };
    here.fake.with(pools => {
      const parent = pools.find("tank");
      if (parent) parent.own["encryption"] = { value: "aes-256-gcm", source: "local" };
    });
    expect(await refused(b, encrypted)).toBe("none");
    here.fake.with(pools => {
      const parent = pools.find("tank");
      if (parent) parent.locked = true;
    });
    expect(await refused(b, encrypted)).toBe("failed-precondition");
  });
});
