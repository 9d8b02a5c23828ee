import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { callWith, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { atEachStep } from "../../contract/steps.ts";
import { startDouble } from "../../fakes/truenas/double.ts";
import { recentVersions } from "../../fakes/truenas/versions.ts";
import { makeAuthority, makeServer } from "../../io/certificates.ts";
import { sampled } from "../../sample.ts";
import { on, openOn, parent, refusal, remainsOf, sections, truenasRig } from "./rig.ts";

/** What connection files and classes can ask for, beyond what the contract of drivers has. */

const call = callWith();

describe.each(sampled(recentVersions, each => each === "26.0"))("snapshots as full copies on TrueNAS %s", version => {
  const protocols = version === "24.10" || version === "26.0" ? (["nfs", "iscsi"] as const) : (["nfs"] as const);
  test.each(protocols)(
    "over %s survive an interruption at any step, and outlive their volume",
    async protocol => {
      const rig = await truenasRig(protocol, { version });
      const volume = await rig.open().create(volumeOf("a"), call);
      await rig.write(volume, "data");
      const detached = { detachedSnapshots: "true" };
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => snapshotsOf(driver).create("s", "a", detached, call), dead };
        },
        async step => {
          const { id, bytes } = await snapshotsOf(rig.open()).create("s", "a", detached, call);
          expect([step, id, bytes]).toEqual([step, "a/s", gib]);
          const restored = await rig.open().create(volumeOf("r", gib, { kind: "snapshot", id }), call);
          expect([step, await rig.read(restored)]).toEqual([step, "data"]);
          await rig.open().delete("r", call);
          await snapshotsOf(rig.open()).delete(id, call);
          expect([step, await snapshotIds(rig.open())]).toEqual([step, []]);
        },
      );
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => snapshotsOf(driver).create("s", "a", detached, call), dead };
        },
        async step => {
          await snapshotsOf(rig.open()).delete("a/s", call);
          expect([step, (await rig.remains()).filter(name => /[/@]s$|recv|@/.test(name))]).toEqual([step, []]);
        },
      );
      await snapshotsOf(rig.open()).create("s", "a", detached, call);
      await rig.open().delete("a", call);
      expect([await volumeIds(rig.open()), await snapshotIds(rig.open())]).toEqual([[], ["a/s"]]);
      await snapshotsOf(rig.open()).delete("a/s", call);
      expect(await rig.remains()).toEqual([]);
      await rig.close();
    },
    180_000,
  );
});

describe.each(recentVersions)("on TrueNAS %s", version => {
  test("a share has the comment and hosts of its file, and a target the name, comment and access of its file", async () => {
    const parameters = { "csi.storage.k8s.io/pvc/name": "data" };
    const shareCommentTemplate = "{{ parameters.[csi.storage.k8s.io/pvc/name] }} in {{ zfs.datasetName }}";
    const nfs = { shareHost: "nas", shareCommentTemplate, shareAllowedHosts: ["10.0.0.1"], shareMapallUser: "root" };
    await on(
      { version },
      "nfs",
      async (driver, double) => {
        await driver.create({ ...volumeOf("pvc-1"), parameters }, call);
        const comment = `data in ${parent}/pvc-1`;
        expect(double.state.tables.nfs[0]).toMatchObject({ comment, hosts: ["10.0.0.1"], mapall_user: "root" });
      },
      { more: { nfs } },
    );
    const [group] = (sections.iscsi["iscsi"] as { readonly targetGroups: readonly object[] }).targetGroups;
    const iscsi = {
      ...(sections.iscsi["iscsi"] as object),
      ...{ nameTemplate: "{{ parameters.[csi.storage.k8s.io/pvc/name] }}", namePrefix: "csi-", nameSuffix: "-a" },
      extentCommentTemplate: "for {{ name }}",
      targetGroups: [{ ...group, targetGroupAuthType: "CHAP Mutual", targetGroupAuthGroup: 1 }],
    };
    await on(
      { version },
      "iscsi",
      async (driver, double) => {
        Object.assign(double.state.tables.iscsiAuth[0] ?? {}, { peeruser: "p", peersecret: "********" });
        const { id, context } = await driver.create({ ...volumeOf("pvc-1"), parameters }, call);
        const name = context["iqn"]?.replace(/^.*:/, "");
        expect(name).toMatch(/^csi-data-[0-9a-f]{8}-a$/);
        expect(double.state.tables.extent[0]).toMatchObject({ name, comment: "for pvc-1" });
        expect(double.state.tables.target[0]).toMatchObject({
          name,
          groups: [{ portal: 1, initiator: 1, authmethod: "CHAP_MUTUAL", auth: 1 }],
        });
        // A deletion does not get the parameters of the template.
        await driver.delete(id, call);
        expect(remainsOf(double)).toEqual([]);
      },
      { more: { iscsi } },
    );
  });

  test("a connection over TLS trusts its authority, its pinned certificate or any certificate, and says what is wrong with another", async () => {
    const folder = mkdtempSync(join(tmpdir(), "csimux-nas-tls-"));
    for (const name of ["ca", "other"]) makeAuthority(folder, name);
    const { cert, key } = makeServer(folder, "ca");
    const text = (file: string) => readFileSync(file, "utf8");
    const double = await startDouble({ version, tls: { cert: text(cert), key: text(key) }, trustLoopback: false });
    const said = async (more: object): Promise<string> => {
      const httpConnection = { protocol: "https", host: "127.0.0.1", port: double.port, apiKey: "1-secret", ...more };
      const driver = openOn(double, "nfs", { more: { httpConnection } });
      const { code, message } = await refusal(driver.check?.(call) ?? Promise.resolve());
      if (code === "ok") await driver.delete((await driver.create(volumeOf("pvc-1"), call)).id, call);
      await driver.close?.();
      expect(message).not.toContain("\n");
      return `${code} ${message}`;
    };
    expect(await said({ ca: text(join(folder, "ca.crt")) })).toBe("ok ");
    expect(await said({ allowInsecure: true })).toBe("ok ");
    expect(await said({ ca: text(join(folder, "other.crt")) })).toMatch(/^unavailable .*certificate is not trusted/);
    const wrong = await said({ fingerprint: "00".repeat(32) });
    const [, pin = ""] = /fingerprint ([0-9A-F:]{95})/.exec(wrong) ?? [];
    expect(wrong).toMatch(/^unavailable .*not the pinned one/);
    expect(await said({ fingerprint: pin })).toBe("ok ");
    expect(double.accounts.isRevoked("1-secret")).toBe(false);
    await double.close();
    rmSync(folder, { recursive: true, force: true });
  });
});

test.each(["24.10", "25.10", "26.0"] as const)(
  "TrueNAS %s tells over its API that a snapshot is held, but not by what: no command is shown",
  version =>
    on({ version }, "nfs", async (driver, double) => {
      await driver.create(volumeOf("a"), call);
      const { id } = await snapshotsOf(driver).create("monday", "a", {}, call);
      const held = double.state.snapshots[`${parent}/a@monday`];
      if (held) held.holds = 2;
      expect(await driver.kept?.list(call)).toEqual([
        {
          ...{ what: "snapshot", name: `${parent}/a@monday`, of: { kind: "snapshot", id }, bytes: 0n },
          ...{ neededBy: [{ kind: "hold", name: "" }], commands: [] },
          frees: "when it is deleted, ZFS keeps it until the last clone or hold ends",
        },
      ]);
    }),
);
