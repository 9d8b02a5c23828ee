import { describe, expect, test } from "bun:test";
import { Jobs } from "../../../fakes/truenas/jobs.ts";
import { numberOf, versionsWithFacts } from "../../../fakes/truenas/versions.ts";
import { systemOf } from "./system.ts";

// What the middleware does besides its models, which the double must do, too. The source of each rule is where the double has it.

const from2504 = versionsWithFacts.filter(version => numberOf(version) >= 2504);
const from2510 = versionsWithFacts.filter(version => numberOf(version) >= 2510);
const before26 = versionsWithFacts.filter(version => numberOf(version) < 2600);

const nfs = (path: string, more: object = {}) => ({ path, networks: [], hosts: [], ...more });
const resource = (paths: readonly string[], more: object = {}) => ({
  ...{ paths, properties: ["used"], get_user_properties: false, get_source: false, get_children: false },
  ...more,
});

describe.each(from2510)("resources of ZFS on %s", version => {
  test("a path that does not exist is refused, by 26 left out; none may be below another with children", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    make("tank/a/b");
    const found = ask("zfs.resource.query", resource(["tank/a", "tank/absent"]));
    if (version === "26.0") expect(found).toMatchObject([{ name: "tank/a" }]);
    else expect(found).toBe("2 'tank/absent' not found");
    const paths = ["tank/a", "tank/a/b"];
    expect(ask("zfs.resource.query", resource(paths, { get_children: true }))).toContain("must be non-overlapping");
    expect(ask("zfs.resource.query", resource(paths))).toHaveLength(2);
  });

  test("sources of no properties fail on 26", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const found = ask("zfs.resource.query", resource(["tank/a"], { properties: null, get_source: true }));
    if (version === "26.0") expect(found).toBe("EINVAL 'NoneType' object has no attribute 'values'");
    else expect(found).toMatchObject([{ name: "tank/a" }]);
  });

  test("a subsystem with namespaces or ports is deleted with force alone, and has no ana without a licence", () => {
    const { ask, zvol } = systemOf(version);
    zvol("tank/a");
    const { id } = ask("nvmet.subsys.create", { name: "a" }) as { readonly id: number };
    ask("nvmet.namespace.create", { subsys_id: id, device_type: "ZVOL", device_path: "zvol/tank/a" });
    ask("nvmet.port_subsys.create", { port_id: 1, subsys_id: id });
    const kept = "22 Subsystem a contains 1 namespace: 1; 22 Subsystem a visible on 1 port";
    expect(ask("nvmet.subsys.delete", id, {})).toBe(kept);
    expect(ask("nvmet.subsys.delete", id, { force: true })).toBe(true);
    expect(ask("nvmet.subsys.create", { name: "b", ana: true })).toContain("Asymmetric Namespace Access");
  });

  test("a snapshot is renamed within its dataset and with force; 26 has another method for it", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    for (const name of ["s", "t"]) ask("pool.snapshot.create", { dataset: "tank/a", name });
    const rename = (to: string, force = true) => ask("pool.snapshot.rename", "tank/a@s", { new_name: to, force });
    expect(rename("tank/a@u", false)).toContain("No safety checks are performed");
    expect(rename("tank/b@u")).toBe("22 Old and new snapshot must be part of the same ZFS dataset");
    if (version === "26.0") expect(rename("tank/a@u")).toContain("Use `zfs.resource.snapshot.rename`");
    else expect(rename("tank/a@t")).toContain("cannot rename 'tank/a@s': dataset already exists");
    if (version !== "26.0") expect(rename("tank/a@u")).toBeNull();
  });
});

describe.each(versionsWithFacts)("shares on %s", version => {
  test("lines of smb.conf need a full administrator, and one share is the home of users", () => {
    const isNew = numberOf(version) >= 2510;
    const share = (name: string, more: object) => ({
      ...{ name, path: "/mnt/tank/a" },
      ...(isNew
        ? { purpose: "LEGACY_SHARE", options: { ...more, purpose: "LEGACY_SHARE" } }
        : { purpose: "NO_PRESET", ...more }),
    });
    const { ask, make } = systemOf(version, { fullAdmin: false });
    make("tank/a");
    expect(ask("sharing.smb.create", share("a", { auxsmbconf: "x = y" }))).toContain("full administrative privileges");
    expect(ask("sharing.smb.create", share("a", { home: true }))).toMatchObject({ name: "a" });
    expect(ask("sharing.smb.create", share("b", { home: true }))).toContain("Only one share");
  });

  test("a share for Time Machine needs mDNS and the extensions for Apple, which a new system does not have", () => {
    const { nas, ask, make } = systemOf(version);
    make("tank/a");
    const purpose = numberOf(version) >= 2510 ? "LEGACY_SHARE" : "NO_PRESET";
    const own = numberOf(version) >= 2510 ? { options: { purpose, timemachine: true } } : { timemachine: true };
    const said = () => ask("sharing.smb.create", { name: "a", path: "/mnt/tank/a", purpose, ...own });
    const needsApple = "22 Apple SMB2/3 protocol extension support is required by this parameter";
    expect(said()).toStartWith(needsApple);
    nas.state.settings.mdns = false;
    expect(said()).toMatch(/^22 mDNS must be enabled in order to .*; 22 Apple/);
    nas.state.settings = { mdns: true, aapl_extensions: true };
    expect(said()).toMatchObject({ name: "a" });
  });

  test("users and groups of NFS must exist, a group needs its user, and one mapping excludes the other", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const said = (more: object) => ask("sharing.nfs.create", nfs("/mnt/tank/a", more));
    expect(said({ maproot_user: "nobody-here" })).toBe("2 User not found: nobody-here");
    expect(said({ mapall_user: "root", mapall_group: "none" })).toBe("2 Group not found: none");
    expect(said({ maproot_group: "wheel" })).toContain("required when map group is specified");
    expect(said({ maproot_user: "root", mapall_user: "root" })).toMatch(/^22 /);
    expect(said({ maproot_user: "root", maproot_group: "wheel" })).toMatchObject({ id: 1 });
  });

  test("networks that overlap are refused; they are kept in canonical form from 25.04 on, as they came before", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const said = (...networks: string[]) => ask("sharing.nfs.create", nfs("/mnt/tank/a", { networks }));
    expect(said("10.0.0.0/24", "10.0.0.7/32")).toContain("Overlapped subnets");
    expect(said("10.0.0.0/24", "10.0.0.0/24")).toContain("Overlapped subnets");
    for (const all of numberOf(version) >= 2510 ? ["0.0.0.0/0", "::/0"] : [])
      expect(said(all)).toContain("to represent all-networks");
    const kept = numberOf(version) >= 2504 ? "10.0.0.0/24" : "10.0.0.5/24";
    expect(said("10.0.0.5/24")).toMatchObject({ networks: [kept] });
    expect(said("10.0.0.9/32")).toContain("already exports /mnt/tank/a for network");
  });

  test("two shares of one path for everybody are both made, and then none for a network", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const said = (more: object = {}) => ask("sharing.nfs.create", nfs("/mnt/tank/a", more));
    expect([said(), said()]).toMatchObject([{ id: 1 }, { id: 2 }]);
    expect(said({ networks: ["10.0.0.0/24"] })).toContain("overlaps network");
  });

  test("credentials of a target must be there, mutual ones of both sides", () => {
    const { ask } = systemOf(version);
    const group = { portal: 1, initiator: 1 };
    const said = (more: object) => ask("iscsi.target.create", { name: "t", groups: [{ ...group, ...more }] });
    expect(said({ authmethod: "CHAP" })).toContain("is required for CHAP");
    expect(said({ authmethod: "CHAP_MUTUAL", auth: 9 })).toBe("2 Authentication group not found");
    expect(said({ authmethod: "CHAP_MUTUAL", auth: 1 })).toContain("does not support CHAP Mutual");
    expect(said({ authmethod: "CHAP", auth: 1 })).toMatchObject({ name: "t" });
  });

  test("an extent decides whether its zvol can be written to and has threads of its own; once it is gone, the zvol has them again", () => {
    const { nas, ask, zvol } = systemOf(version);
    zvol("tank/a");
    const extent = (ro: boolean) =>
      ask("iscsi.extent.create", { name: "a", disk: "zvol/tank/a", type: "DISK", ro }) as { readonly id: number };
    const native = () => nas.state.datasets["tank/a"]?.native;
    const { id } = extent(true);
    expect(native()).toMatchObject({ readonly: "on", volthreading: "off" });
    expect(ask("iscsi.extent.delete", id)).toBe(true);
    expect(native()).toMatchObject({ readonly: "on", volthreading: "on" });
    extent(false);
    expect(native()).toMatchObject({ readonly: "off", volthreading: "off" });
    const target = ask("iscsi.target.create", { name: "t", groups: [] }) as { readonly id: number };
    ask("iscsi.targetextent.create", { target: target.id, extent: 1, lunid: 0 });
    if (numberOf(version) < 2504) return;
    ask("iscsi.target.delete", target.id, false, true);
    expect(native()).toMatchObject({ volthreading: "on" });
  });

  test("the extent of a zvol goes with it, and the target that has no other", () => {
    const { nas, ask, zvol } = systemOf(version);
    zvol("tank/a");
    const extent = ask("iscsi.extent.create", { name: "a", disk: "zvol/tank/a", type: "DISK" }) as { id: number };
    const target = ask("iscsi.target.create", { name: "t", groups: [] }) as { id: number };
    ask("iscsi.targetextent.create", { target: target.id, extent: extent.id, lunid: 0 });
    expect(ask("pool.dataset.delete", "tank/a", {})).toBe(true);
    expect([nas.state.tables.target, nas.state.tables.extent]).toEqual([[], []]);
  });
});

describe.each(versionsWithFacts)("datasets on %s", version => {
  test("a mode has three digits and is not empty", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const said = (mode: string) => ask("filesystem.setperm", { path: "/mnt/tank/a", mode });
    for (const mode of ["1777", "2770", "000"]) expect(said(mode)).toMatch(/^22 /);
    expect(said("770")).toBeNull();
  });

  test("the folder of a pool keeps its permissions, and a missing one is reported", () => {
    const { ask } = systemOf(version);
    const said = (path: string) => ask("filesystem.setperm", { path, mode: "770" });
    expect(said("/mnt/tank")).toContain("is a ZFS pool mountpoint");
    expect(said("/mnt/tank/absent")).toBe("ENOENT Path /mnt/tank/absent not found");
  });

  test("a list is answered in the form of the version", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const found = ask("filesystem.getacl", "/mnt/tank/a", false) as Readonly<Record<string, unknown>>;
    expect("user" in found).toBe(numberOf(version) >= 2504);
    expect("flags" in found).toBe(numberOf(version) < 2504);
  });

  test("a user property that is not there cannot be removed; 26 does not look", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const change = { user_properties_update: [{ key: "csimux:x", remove: true }] };
    const said = ask("pool.dataset.update", "tank/a", change);
    if (version === "26.0") expect(said).toMatchObject({ name: "tank/a" });
    else expect(said).toContain("Property does not exist and cannot be inherited");
  });

  test("a parent that is missing or a volume is named, and a volume is compared with the room that quotas leave", () => {
    const { ask, make, zvol } = systemOf(version);
    zvol("tank/z");
    expect(make("tank/z/a")).toBe("22 tank/z: parent may not be a ZFS volume");
    expect(make("tank/x/a")).toMatch(/^22 Parent dataset .*does not exist/);
    make("tank/q", { quota: 2 ** 30 });
    make("tank/q/v");
    expect(zvol("tank/q/v/z")).toContain("more than 80% of your available space");
    expect(ask("pool.dataset.promote", "tank/q")).toMatch(/ineligible|Only cloned datasets/);
  });
});

test.each(before26)("what a stream has begun on %s goes before the dataset", version => {
  const { nas, ask, make } = systemOf(version);
  make("tank/a");
  const dataset = nas.state.datasets["tank/a"];
  if (dataset) dataset.partOf = { guid: "1", snapshot: "s" };
  expect(ask("pool.dataset.delete", "tank/a", {})).toBe(true);
  expect(nas.state.datasets["tank/a"]).toBeUndefined();
});

test.each(from2504)("rows that a test has made with few fields are answered whole on %s", version => {
  const { nas, ask } = systemOf(version);
  nas.state.tables.nfs.push({ id: 9, path: "/mnt/tank/a", enabled: false });
  expect(ask("sharing.nfs.query", [], {})).toMatchObject([{ id: 9, enabled: false, networks: [] }]);
  expect(ask("sharing.nfs.query", [], { select: ["id"] })).toEqual([{ id: 9 }]);
});

test("jobs are one's own without FULL_ADMIN, and of more than a thousand the oldest that has ended is dropped", async () => {
  const jobs = new Jobs();
  const start = { fullAdmin: false };
  for (let n = 0; n < 1005; n++) await jobs.begin("a.b", [], () => n, { ...start, user: n % 2 ? "one" : "two" }).done;
  const rows = (who: object) => jobs.query([], {}, { fullAdmin: false, ...who } as never) as { readonly id: number }[];
  expect(rows({ fullAdmin: true })).toHaveLength(1001);
  expect(rows({ fullAdmin: true })[0]?.id).toBe(5);
  expect(rows({ user: "one" }).every(({ id }) => id % 2 === 0)).toBe(true);
});

test("a full queue whose last job is another account's is busy for who may not see it, and answered with that job for others", () => {
  const jobs = new Jobs();
  const lock = { name: "perm_change", queue: 1 };
  const begin = (who: object) => jobs.begin("filesystem.setperm", [], () => null, { lock, fullAdmin: false, ...who });
  begin({ user: "one" });
  const waiting = begin({ user: "one" });
  expect(() => begin({ user: "two" })).toThrow("already being performed by another user");
  expect([begin({ user: "one" }), begin({ user: "two", fullAdmin: true })]).toEqual([waiting, waiting]);
});
