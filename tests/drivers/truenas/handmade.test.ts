import { describe, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, gib, volumeOf } from "../../contract/rig.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { scaleVersions, type Version, versions } from "../../fakes/truenas/versions.ts";
import { openOn, parent, refusal, type Way } from "./rig.ts";
import { sshRig } from "./ssh-rig.ts";

/** What a person made under the very name that csimux would use stays as it is, and the call says what stands there. */

const call = callWith();
const waysOf = (version: Version): readonly Way[] =>
  version === "25.10" || version === "26.0" ? ["nfs", "smb", "iscsi", "nvmeof"] : ["nfs", "smb", "iscsi"];

/** Every call that could adopt, change or remove a volume of this name. */
async function meddled(driver: Driver, name: string): Promise<readonly string[]> {
  const made = await refusal(driver.create(volumeOf(name), call));
  const removed = await refusal(driver.delete(name, call));
  const grown = await refusal(
    driver.expand?.expand(name, { required: 2n * gib, limit: undefined }, call) ?? Promise.resolve(),
  );
  return [made.code, removed.code, grown.code, made.message];
}

const seen = ({ state: { datasets, snapshots, tables } }: Double): unknown =>
  structuredClone({ datasets, snapshots, tables });

describe.each(scaleVersions)("on TrueNAS %s over the API", version => {
  test.each(waysOf(version))("a dataset by hand in the place of a volume over %s is left as it is", async way => {
    const double = await startDouble({ version });
    const driver = openOn(double, way);
    const first = await driver.create(volumeOf("pvc-0"), call);
    const volume = double.state.datasets[`${parent}/${first.id}`];
    if (!volume) throw new Error("no dataset");
    // As large as asked for, empty, and of the same kind: only the mark is missing.
    const name = `${parent}/pvc-1`;
    double.state.datasets[name] = { ...volume, name, user: {}, guid: "77", createtxg: 77 };
    const before = seen(double);
    const [made, removed, grown, message] = await meddled(driver, "pvc-1");
    expect([made, removed, grown]).toEqual(["already-exists", "failed-precondition", "not-found"]);
    expect(message).toContain(`${name} exists and bears no mark of csimux`);
    expect(seen(double)).toEqual(before);
    await driver.close?.();
    await double.close();
  });

  test.each(waysOf(version))("a share, target or subsystem by hand of the name over %s is left as it is", async way => {
    const double = await startDouble({ version });
    const driver = openOn(double, way);
    const first = await driver.create(volumeOf("pvc-1"), call);
    const { tables } = double.state;
    // What csimux would make, on what is somebody else's.
    const theirs = structuredClone(tables);
    await driver.delete(first.id, call);
    const other = "tank/theirs";
    const moved = JSON.parse(JSON.stringify(theirs).replaceAll(`${parent}/pvc-1`, other)) as typeof theirs;
    const volume = { ...double.state.datasets["tank/k8s"] };
    const type = way === "nfs" || way === "smb" ? "FILESYSTEM" : "VOLUME";
    double.state.datasets[other] = { ...(volume as never as object), name: other, type } as never;
    Object.assign(double.state.tables, moved);
    const before = seen(double);
    const made = await refusal(driver.create(volumeOf("pvc-1"), call));
    // NFS exports have no names; those of disks bear a tag that nothing made by hand has.
    if (way === "smb") {
      expect(made.code).toBe("failed-precondition");
      expect(made.message).toContain("exists already");
    }
    await driver.delete("pvc-1", call);
    expect(seen(double)).toEqual(before);
    await driver.close?.();
    await double.close();
  });
});

/** Up to 25.10 pool.dataset.delete removes everything that serves a dataset before it refuses. */
describe.each(scaleVersions)("on TrueNAS %s", version => {
  test.each(["nfs", "iscsi"] as const)(
    "a deletion over %s that is refused for a clone leaves all shares and targets, those by hand too",
    async way => {
      const double = await startDouble({ version });
      const driver = openOn(double, way);
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      const clone = await driver.create(volumeOf("clone", gib, { kind: "volume", id }), call);
      double.state.tables.smb.push({ id: 9, name: "by-hand", path: `/mnt/${parent}/${id}/sub`, enabled: true });
      const before = seen(double);
      expect((await refusal(driver.delete(id, call))).code).toBe("failed-precondition");
      expect(seen(double)).toEqual(before);
      await driver.delete(clone.id, call);
      await driver.delete(id, call);
      expect(Object.keys(double.state.datasets).some(name => name.startsWith(`${parent}/`))).toBe(false);
      await driver.close?.();
      await double.close();
    },
  );
});

describe.each(versions)("on TrueNAS %s over ssh", version => {
  test.each(waysOf(version))("a dataset by hand in the place of a volume over %s is left as it is", async way => {
    const rig = await sshRig(way, version);
    const driver = rig.open();
    await driver.create(volumeOf("pvc-0"), call);
    const disk = way === "iscsi" || way === "nvmeof";
    rig.fake.zfs("create", ...(disk ? ["-s", "-V", String(gib)] : []), "tank/k/v/pvc-1");
    const stands = () =>
      rig.fake.with(pools => JSON.stringify(pools.all().filter(({ name }) => name.endsWith("pvc-1"))));
    const before = [stands(), seen(rig.double)];
    const [made, removed, grown, message] = await meddled(driver, "pvc-1");
    expect([made, removed, grown]).toEqual(["already-exists", "failed-precondition", "not-found"]);
    expect(message).toContain("tank/k/v/pvc-1 exists and bears no mark of csimux");
    expect([stands(), seen(rig.double)]).toEqual(before);
    await rig.close();
  });
});
