import { expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CsiError } from "../../../lib/core/errors.ts";
import { FakeVolume } from "../fake-volume.ts";
import { codeOf } from "../lab.ts";
import { FakeHost, iqn } from "./fake-host.ts";

const one = "10.0.0.1:3260";

const volumeOf = (id: string) => new FakeVolume(id, { node_attach_driver: "iscsi", iqn, lun: "0", portal: one });

/** What csimux has left on a node. */
const left = (host: FakeHost) => ({ sessions: host.sessions, disks: host.disks, records: host.records });
const nothing = { sessions: [], disks: [], records: [] };

test("a session is closed after the loss of the state folder, once the volume was staged again", async () => {
  using host = new FakeHost(one);
  await volumeOf("a").attach(host);
  rmSync(join(host.root, "opened"), { recursive: true });
  const again = volumeOf("a");
  await again.attach(host);
  await again.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("a session is closed after the loss of the record, also if the volume was not staged again", async () => {
  using host = new FakeHost(one);
  await volumeOf("a").attach(host);
  for (const lost of ["nothing else", "opened"]) {
    // What publishing makes of a lost record has no notes.
    await volumeOf("a").attach(host);
    rmSync(join(host.root, lost), { recursive: true, force: true });
    await volumeOf("a").detach(host);
    expect([lost, left(host)]).toEqual([lost, nothing]);
  }
});

test("after the loss of the state folder, a session that the host opened after a restart of the machine stays", async () => {
  using host = new FakeHost(one);
  await volumeOf("a").attach(host);
  rmSync(join(host.root, "opened"), { recursive: true });
  host.boot("second");
  host.foreignSession(one, "0");
  const again = volumeOf("a");
  await again.attach(host);
  await again.detach(host);
  expect([host.sessions, host.disks]).toEqual([["session2"], ["sda"]]);
  await again.detach(host);
  expect(host.sessions).toEqual(["session2"]);
});

test("a session that another program opened during the login is not marked as csimux's", async () => {
  using host = new FakeHost(one);
  host.before = line => {
    if (line.endsWith("--login")) host.foreignSession(one, "0");
  };
  const volume = volumeOf("a");
  await volume.attach(host);
  expect(host.recordText("10.0.0.1,3260")).not.toContain("opened by csimux");
  rmSync(join(host.root, "opened"), { recursive: true, force: true });
  await volume.detach(host);
  expect(host.sessions).toEqual(["session1"]);
});

test("two volumes of one LUN: the last one that is detached takes the disk and the session along", async () => {
  using host = new FakeHost(one);
  const [first, second] = [volumeOf("a"), volumeOf("b")];
  await first.attach(host);
  await second.attach(host);
  await first.detach(host, second);
  await second.detach(host);
  expect(left(host)).toEqual(nothing);
});

const auth = "node-db.node.session.auth";
const secrets = { [`${auth}.username`]: "node", [`${auth}.password`]: "a secret" };

test("a node record whose settings a full disk did not take is csimux's own: none is left, and the next attachment logs in", async () => {
  for (const [cut, code] of [
    ["full", "failed-precondition"],
    ["killed", "unavailable"],
  ] as const) {
    using host = new FakeHost(one);
    host.credentials = { username: "node", password: "a secret" };
    const beside = join(host.root, "etc/iscsi/nodes", iqn, "10.0.0.1,3260.csimux");
    if (cut === "full") mkdirSync(beside, { recursive: true });
    else
      host.before = line => {
        if (!line.endsWith("-o new")) return;
        host.before = () => {};
        void host.run({ argv: ["iscsiadm", ...line.split(" ").slice(1)] });
        throw new CsiError("unavailable", "cut");
      };
    const volume = volumeOf("a");
    expect(await codeOf(volume.attach(host, secrets))).toBe(code);
    expect(host.recordText("10.0.0.1,3260")).toContain("node.startup = automatic");
    rmSync(beside, { recursive: true, force: true });
    // The pod goes elsewhere, or the call is repeated.
    await volume.detach(host);
    expect({ cut, ...left(host) }).toEqual({ cut, ...nothing });
    if (cut === "full") mkdirSync(beside, { recursive: true });
    await codeOf(volume.attach(host, secrets));
    rmSync(beside, { recursive: true, force: true });
    expect(await volume.attach(host, secrets)).toMatchObject({ path: `${host.root}/dev/sda` });
    expect(host.recordText("10.0.0.1,3260")).toContain("node.startup = manual");
    await volume.detach(host);
    expect({ cut, ...left(host) }).toEqual({ cut, ...nothing });
  }
});
