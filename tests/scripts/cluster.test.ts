import { afterEach, expect, test } from "bun:test";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { missing } from "../../scripts/cluster/requirements.ts";
import { spawned } from "../../scripts/spawned.ts";

const path = process.env["PATH"];
afterEach(() => {
  process.env["PATH"] = path;
});

test("on a machine without the programs of the cluster, every missing package is named, and Go if something must be compiled", async () => {
  process.env["PATH"] = "/nonexistent";
  const said = (await missing({}, true)).join("\n");
  expect(said).toContain("Debian packages: containerd runc busybox-static iproute2");
  expect(said).toContain("Go 1.26 or newer");
  expect((await missing({}, false)).join("\n")).not.toContain("Go 1.26");
});

test("a busybox that loads libraries does not do, because images of the tests have none", async () => {
  const programs = await mkdtemp(join(tmpdir(), "csimux-path-"));
  try {
    const names = ["containerd", "runc", "busybox", "ip", "unshare", "nsenter", "mount", "dpkg-deb", "tar"];
    for (const name of names) await symlink("/bin/true", join(programs, name));
    const lacks = async (shell: string) => (await missing({}, false, shell)).join("\n");
    process.env["PATH"] = `${programs}:${path}`;
    expect(await lacks("/bin/true")).toContain("busybox-static, instead of busybox: /bin/true loads libraries");
    const script = join(programs, "static");
    await writeFile(script, "");
    expect(await lacks(script)).not.toContain("busybox");
  } finally {
    await rm(programs, { recursive: true, force: true });
  }
});

test("a program that was ended because of its time limit says so", async () => {
  const { code, stderr } = await spawned(["sleep", "60"], { timeoutMs: 50 });
  expect([code, stderr]).toEqual([137, "ended by SIGKILL, because of its time limit of 0.05 s"]);
  expect((await spawned(["sh", "-c", "kill -9 $$"])).stderr).toBe("ended by SIGKILL");
});
