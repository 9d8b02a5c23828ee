import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { hasGoProgram } from "../../scripts/cluster/tools.ts";
import { type FakeZfs, fakeZfs } from "../fakes/zfs/pools.ts";
import { type Sshd, startSshd } from "../io/ssh/sshd.ts";
import { sectionsOf } from "./page.ts";
import { Reader } from "./reader.ts";

const onHost = (start: string): string =>
  sectionsOf("first-zfs").find(({ title }) => title.startsWith(start))?.onHost ?? "";

describe.if(hasGoProgram("kustomize"))("the tutorial for a ZFS host, run from top to bottom", () => {
  let fake: FakeZfs;
  let sshd: Sshd;
  let reader: Reader;

  beforeAll(async () => {
    fake = await fakeZfs();
    reader = await Reader.start("first-zfs");
    reader.recorded("apt-get", "zpool", "useradd", "userdel", "visudo", "chown");
    reader.program("zfs", `exec ${fake.bin}/zfs "$@"`);
    sshd = await startSshd({ env: { PATH: `${join(reader.folder, "on-host")}:${fake.bin}:/usr/bin:/bin` } });
    await reader.runs(
      "mkdir on-host etc; printf '#!/bin/sh\\nshift\\nexec \"$@\"\\n' > on-host/sudo; chmod 755 on-host/sudo",
    );
    reader.changes
      .set(/(?<=port: |-p )22\b/g, String(sshd.port))
      .set("host=zfs.example.org", "host=127.0.0.1")
      .set("username: csimux", "username: root")
      .set("/etc/sudoers.d", join(reader.folder, "etc"))
      .set("/home/csimux/.ssh", sshd.folder)
      .set("registry=registry.example.org", "registry=registry.lan");
  }, 600_000);
  afterAll(async () => {
    await reader.end();
    await sshd.stop();
    await fake.close();
  });

  test("the account gets its rule and its key, and csimux serves the connection", async () => {
    await reader.runs(onHost("1."));
    expect(readFileSync(join(reader.folder, "etc/csimux"), "utf8")).toBe("csimux ALL=(root) NOPASSWD: ALL\n");
    await reader.plays("2.");
    const { commands } = reader.sections.find(({ title }) => title.startsWith("3.")) ?? { commands: "" };
    const [before = "", after = ""] = commands.split(/(?<=^echo "\$hostkey"\n)/m);
    expect((await reader.runs(before)).trim()).toBe(sshd.hostKey);
    const key = readFileSync(join(reader.folder, "csimux-key.pub"), "utf8").trim();
    reader.changes.set("put the line of csimux-key.pub here", key);
    await reader.runs(onHost("3."));
    expect(await reader.runs(after)).toContain("no problems");
    expect(await reader.plays("4.")).toMatch(/nas +good/);
  }, 180_000);

  test("a claim is a dataset with a quota that ZFS shares, and a snapshot becomes a claim", async () => {
    expect(await reader.plays("5.")).toContain("hello");
    const own = fake.find("tank/k8s/volumes/pvc-notes")?.own ?? {};
    expect([own["refquota"]?.value, own["sharenfs"]?.value]).toEqual([
      String(2 * 1024 ** 3),
      "rw=@10.0.0.0/24,no_subtree_check,no_root_squash",
    ]);
    expect(fake.find("tank/k8s/volumes/pvc-notes-restored")).toBeDefined();
  }, 180_000);

  test("nothing is left on the host at the end", async () => {
    const left = () => fake.zfs("list", "-H", "-o", "name", "-t", "all", "-r", "tank").trim().split("\n");
    await reader.plays("6.");
    expect(left()).toEqual(["tank", "tank/k8s", "tank/k8s/volumes"]);
    await reader.runs(onHost("6."));
    expect(left()).toEqual(["tank"]);
    expect(readdirSync(join(reader.folder, "etc"))).toEqual([]);
  }, 180_000);
});
