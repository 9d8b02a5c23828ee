import { describe, expect, test } from "bun:test";
import { wrongAnswer } from "../../../fakes/truenas/facts/check.ts";
import { numberOf, versionsWithFacts } from "../../../fakes/truenas/versions.ts";
import { systemOf } from "./system.ts";

// Answers whose form differs between versions, or which have more than a driver reads. Each is compared with the facts, too.

/** The keys of an answer. */
const keysOf = (answer: unknown): readonly string[] => Object.keys(answer as object);

describe.each(versionsWithFacts)("on %s", version => {
  const number = numberOf(version);

  test("a folder is described with size, times, owner by name, and the type from 25.04 on", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const found = ask("filesystem.stat", "/mnt/tank/a");
    const common = ["size", "allocation_size", "mount_id", "atime", "mtime", "ctime", "btime", "dev", "inode", "nlink"];
    expect(keysOf(found)).toEqual(expect.arrayContaining([...common, "is_ctldir", "attributes"]));
    expect(found).toMatchObject({ uid: 0, user: "root", group: "root" });
    expect("type" in (found as object)).toBe(number >= 2504);
  });

  test("the settings of iSCSI tell iser from 25.04 on, and how the server is configured from 26 on", () => {
    const keys = keysOf(systemOf(version).ask("iscsi.global.config"));
    expect(["iser", "mode", "direct_config"].filter(key => keys.includes(key))).toEqual(
      number >= 2600 ? ["iser", "mode", "direct_config"] : number >= 2504 ? ["iser"] : [],
    );
  });

  test("shares of NFS tell from 25.04 on whether they show snapshots", () => {
    const { ask, make } = systemOf(version);
    make("tank/a");
    const row = ask("sharing.nfs.create", { path: "/mnt/tank/a", networks: [], hosts: [] });
    expect("expose_snapshots" in (row as object)).toBe(number >= 2504);
    expect(ask("sharing.nfs.query", [], {})).toEqual([row]);
  });

  test("the list of a clone below a dataset with POSIX lists has the kind that the clone inherits", () => {
    const { ask, make } = systemOf(version);
    make("tank/a", { share_type: "SMB" });
    const snapshots = number >= 2510 ? "pool.snapshot" : "zfs.snapshot";
    ask(`${snapshots}.create`, { dataset: "tank/a", name: "s" });
    expect(ask(`${snapshots}.clone`, { snapshot: "tank/a@s", dataset_dst: "tank/b" })).toBe(true);
    const listOf = (name: string) =>
      ask("filesystem.getacl", `/mnt/tank/${name}`, false) as { acltype: string; acl: { tag: string }[] };
    expect(listOf("a")).toMatchObject({ acltype: "NFS4", acl: [{ tag: "owner@" }, {}, {}] });
    expect(listOf("b")).toMatchObject({ acltype: "POSIX1E", acl: [{ tag: "USER_OBJ" }, {}, {}] });
  });

  test("a changed dataset is answered whole", () => {
    const { ask, zvol } = systemOf(version);
    zvol("tank/z");
    const changed = ask("pool.dataset.update", "tank/z", { volsize: 2 ** 31 });
    expect(changed).toMatchObject({ id: "tank/z", type: "VOLUME", volsize: { parsed: 2 ** 31 }, pool: "tank" });
    expect(ask("pool.dataset.query", [["id", "=", "tank/z"]], {})).toEqual([changed]);
  });
});

describe.each(versionsWithFacts.filter(version => numberOf(version) >= 2510))("NVMe-oF on %s", version => {
  test("sessions have no id of their own", () => {
    const { nas, ask } = systemOf(version);
    ask("nvmet.subsys.create", { name: "a" });
    nas.sessions.add("a");
    const rows = ask("nvmet.global.sessions", [], {}) as readonly object[];
    expect(rows).toMatchObject([{ subsys_id: 1, ctrl: 1 }]);
    expect(rows.filter(row => "id" in row)).toEqual([]);
  });
});

test("snapshots on 26 tell their holds only to those who ask, and null if there are none", () => {
  const { nas, ask, make } = systemOf("26.0");
  make("tank/a");
  ask("zfs.resource.snapshot.create", { dataset: "tank/a", name: "s" });
  const found = (more: object) => ask("zfs.resource.snapshot.query", { paths: ["tank/a"], ...more });
  expect(found({ get_holds: true })).toMatchObject([{ holds: null }]);
  const snapshot = nas.state.snapshots["tank/a@s"];
  if (snapshot) snapshot.holds = 1;
  expect(found({})).toMatchObject([{ holds: null }]);
  expect(found({ get_holds: true })).toMatchObject([{ holds: ["tag-0"] }]);
});

describe.each(versionsWithFacts.filter(version => numberOf(version) >= 2504))("accounts on %s", version => {
  test("what tells of an account without all of its fields does not fit", () => {
    const incomplete = { pw_name: "csi", privilege: { roles: [] } };
    expect(wrongAnswer(version, "auth.me", incomplete).length).toBeGreaterThan(1);
    expect(wrongAnswer(version, "auth.login_ex", { response_type: "SUCCESS" }).length).toBeGreaterThan(0);
  });
});
