import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { FilesystemNames } from "../../../lib/drivers/objectivefs/names.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { callWith, findVolume, getVolume, gib, volumeIds, volumeOf } from "../../contract/rig.ts";
import { accessKey, adminLicence, environment, passphrase, secretKey } from "../../fakes/mount-objectivefs.ts";
import { type OfsRig, ofsRig, pool } from "./ofs-rig.ts";

const call = callWith();
const claim = "pvc-8c1f4f5e-43a0-4c55-9d0e-0b1d4f3a2c11";

let rig: OfsRig;
let driver: Driver;
beforeEach(async () => {
  rig = await ofsRig();
  driver = rig.open();
});
afterEach(() => rig.close());

const withParameters = (parameters: Readonly<Record<string, string>>) => ({ ...volumeOf("a"), parameters });

describe("the name of a file system", () => {
  const names = new FilesystemNames(["c1"], 123);

  test("contains a plain volume name, the size and the owner", () => {
    expect(names.idOf(claim)).toBe(claim);
    const filesystem = names.filesystem(claim, 5n * gib);
    expect(filesystem).toMatch(new RegExp(`^${claim}-[0-9a-z]+-[0-9a-v]{8}$`));
    expect(names.parse(filesystem)).toEqual({ id: claim, bytes: 5n * gib });
  });

  test("differs for names with equal checksums, so that no two volumes share a file system", async () => {
    const pair = ["plumless", "buckeroo"];
    expect(crc32("plumless")).toBe(crc32("buckeroo"));
    const [a, b] = await Promise.all(pair.map(name => driver.create(volumeOf(name), call)));
    expect(a?.context["filesystem"]).not.toBe(b?.context["filesystem"]);
    expect((await rig.remains()).length).toBe(2);
  });

  test("has 63 significant characters for the longest name and the largest size", () => {
    const longest = names.filesystem("a".repeat(40), (1n << 63n) - 1n);
    expect(longest.length).toBe(63);
    expect(names.parse(longest)).toEqual({ id: "a".repeat(40), bytes: (1n << 63n) - 1n });
    for (let at = 0; at < longest.length; at++) {
      const other = `${longest.slice(0, at)}${longest[at] === "b" ? "c" : "b"}${longest.slice(at + 1)}`;
      expect([at, names.parse(other)]).toEqual([at, undefined]);
    }
  });

  test("cannot result from a volume name that looks like a digest", () => {
    const hashed = names.idOf("Ein Name");
    expect(hashed).toMatch(/^ein-name-[0-9a-v]{26}$/);
    expect(names.idOf(hashed)).not.toBe(hashed);
  });
});

describe("a file system without the connection's mark", () => {
  test("is never destroyed, neither one made by hand nor one with a short checksum id of democratic-csi", async () => {
    for (const id of ["backups", "3f2a91bc"]) {
      await rig.fake.foreign(pool, id);
      await expect(driver.delete(id, call)).rejects.toMatchObject({
        code: "failed-precondition",
        message: expect.stringContaining("has no mark of this connection"),
      });
    }
    expect(await rig.remains()).toEqual(["3f2a91bc", "backups"]);
    expect((await rig.fake.calls()).filter(line => line.startsWith("destroy"))).toEqual([]);
  });

  test("is never destroyed if it has the mark of another connection, and not reported as deleted if its id is a claim's", async () => {
    const other = rig.open({ identity: { connection: "c2" } });
    const volume = await other.create(volumeOf(claim), call);
    await other.create(volumeOf("same"), call);
    await driver.delete("same", call);
    await expect(driver.delete(claim, call)).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("has the mark of another connection or instance_id and is kept"),
    });
    await driver.delete((volume.context["filesystem"] ?? "").split("/")[1] ?? "", call).catch(() => {});
    expect(await getVolume(other, claim)).toEqual(volume);
    expect(await findVolume(driver, claim)).toBeUndefined();
  });

  test("but with the random id of a claim is a volume of democratic-csi, which is read, listed and deleted", async () => {
    await rig.fake.foreign(pool, claim);
    const volume = await getVolume(driver, claim);
    expect(volume).toMatchObject({ id: claim, bytes: 0n, context: { filesystem: `${pool}/${claim}` } });
    expect(await volumeIds(driver)).toEqual([claim]);
    await driver.delete(claim, call);
    expect(await rig.remains()).toEqual([]);
  });

  test("and with a short id of democratic-csi remains usable", async () => {
    await rig.fake.foreign(pool, "3f2a91bc");
    expect((await getVolume(driver, "3f2a91bc")).context["filesystem"]).toBe(`${pool}/3f2a91bc`);
  });
});

test("a connection that gets an instance_id keeps its earlier volumes", async () => {
  const { id } = await driver.create(volumeOf("a"), call);
  const later = rig.open({ identity: { instanceId: "one" } });
  const newer = await later.create(volumeOf("b"), call);
  expect(await volumeIds(later)).toEqual([id, newer.id]);
  expect(await volumeIds(driver)).toEqual([id]);
  await later.delete(id, call);
  expect((await rig.remains()).length).toBe(1);
});

test("a connection that gets an instance_id destroys none of two file systems of an id: one can be another cluster's", async () => {
  const later = rig.open({ identity: { instanceId: "one" } });
  for (const bytes of [gib, 3n * gib]) {
    const { id, context } = await later.create(volumeOf("a", 2n * gib), call);
    const theirs = await driver.create(volumeOf("a", bytes), call);
    expect((await getVolume(later, id)).context).toEqual(context);
    await expect(later.delete(id, call)).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining(`the volume "a": ${context["filesystem"]?.split("/")[1]}, `),
    });
    expect((await rig.remains()).length).toBe(2);
    await driver.delete(theirs.id, call);
    await later.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }
});

describe("a listing", () => {
  test("contains only the volumes of the connection's own pool and bucket", async () => {
    const { id } = await driver.create(volumeOf("a"), call);
    await rig.open({ identity: { connection: "c2" } }).create(volumeOf("b"), call);
    await rig.open({ section: { pool: "others", env: environment } }).create(volumeOf("c"), call);
    await rig.fake.foreign(pool, "by-hand");
    expect(await volumeIds(driver)).toEqual([id]);
  });

  test("that cannot be read is a failure, so no volume is reported as missing", async () => {
    const { id } = await driver.create(volumeOf("a"), call);
    await rig.fake.listing("Usage: mount.objectivefs list\n");
    for (const work of [() => driver.delete(id, call), () => getVolume(driver, id)])
      await expect(work()).rejects.toMatchObject({ message: expect.stringContaining("no columns NAME and KIND") });
    expect((await rig.remains()).length).toBe(1);
  });
});

describe("destroying", () => {
  test("is confirmed through the program's input, and no shell interprets text of a caller", async () => {
    const { id } = await driver.create(volumeOf("a"), call);
    const hostile = ["a;touch x", "$(reboot)", "a b", `${id} other`, "-f", "../a", `${pool}/a`, "a\ny"];
    for (const text of hostile) await driver.delete(text, call);
    expect((await rig.fake.calls()).filter(line => line.startsWith("destroy"))).toEqual([]);
    await driver.delete(id, call);
    const destroyed = (await rig.fake.calls()).filter(line => line.startsWith("destroy"));
    expect(destroyed).toEqual([expect.stringMatching(/^destroy csi-volumes\/a-[0-9a-z]+-[0-9a-v]{8}$/)]);
    expect(await rig.remains()).toEqual([]);
  });

  test("uses sudo if the file says so, which passes the keys on by name and shows none", async () => {
    const sudo = join(rig.fake.bin, "sudo");
    const log = join(rig.fake.folder, "sudo");
    await writeFile(
      sudo,
      `#!/bin/sh\nwhile :; do echo "$*" >> ${log}; case "$1" in -*) shift ;; *) exec "$@" ;; esac; done\n`,
    );
    await chmod(sudo, 0o755);
    const through = rig.open({ section: { cli: { sudoEnabled: true }, env: environment } });
    await through.delete((await through.create(volumeOf("a"), call)).id, call);
    const lines = (await Bun.file(log).text()).split("\n").filter(line => line.startsWith("-n"));
    expect(lines.map(line => line.split(" ").slice(2, 4).join(" "))).toEqual([
      "mount.objectivefs list",
      "mount.objectivefs list",
      "mount.objectivefs create",
      "mount.objectivefs list",
      "mount.objectivefs destroy",
    ]);
    expect(lines.every(line => line.includes(`--preserve-env=${Object.keys(environment).join(",")} `))).toBe(true);
    expect(lines.join()).not.toContain(secretKey);
    expect(await rig.remains()).toEqual([]);
  });
});

test("keys and passphrase are passed in the environment and never in a command line", async () => {
  await driver.delete((await driver.create(volumeOf("a"), call)).id, call);
  const calls = (await rig.fake.calls()).join("\n");
  for (const secret of [accessKey, secretKey, passphrase, adminLicence]) {
    expect(calls).not.toContain(secret);
    expect(await rig.fake.environment()).toContain(secret);
  }
});

describe("a class", () => {
  test("sets variables of the node's mount in the volume context, but never the connection's object store", async () => {
    const spec = withParameters({ "env.CACHESIZE": "1Gi", "env.OBJECTSTORE": "s3://", connection: "c1" });
    const volume = await driver.create(spec, call);
    expect(volume.context).toEqual({
      node_attach_driver: "objectivefs",
      provisioner_driver: "objectivefs",
      filesystem: expect.stringMatching(/^csi-volumes\/a-/),
      "env.CACHESIZE": "1Gi",
      "env.OBJECTSTORE": "minio://",
    });
    expect(await driver.create(spec, call)).toEqual(volume);
  });

  test.each(["ACCESS_KEY", "SECRET_KEY", "OBJECTIVEFS_PASSPHRASE", "OBJECTIVEFS_LICENSE", "SESSION_TOKEN"])(
    "with the secret %s among its parameters is refused, because a PersistentVolume is not secret",
    async name => {
      await expect(driver.create(withParameters({ [`env.${name}`]: "x" }), call)).rejects.toMatchObject({
        code: "invalid-argument",
        message: expect.stringContaining("node-stage secret"),
      });
      expect(await rig.remains()).toEqual([]);
    },
  );

  test.each(["LD_PRELOAD", "PATH", "BASH_ENV", "OPENSSL_CONF", "https_proxy", "DISKCACHE_PATH", "A-B", ""])(
    "cannot choose what the node runs with %j",
    async name => {
      const made = driver.create(withParameters({ [`env.${name}`]: "x" }), call);
      await expect(made).rejects.toMatchObject({ code: "invalid-argument" });
    },
  );
});

describe("a failure", () => {
  const everything = (): readonly (() => Promise<unknown>)[] => [
    () => driver.create(volumeOf("a"), call),
    () => driver.delete("a", call),
    async () => driver.check?.(call),
  ];

  test("to find the program names it and the remedy", async () => {
    await rm(join(rig.fake.bin, "mount.objectivefs"));
    for (const work of everything())
      await expect(work()).rejects.toMatchObject({
        code: "failed-precondition",
        message: expect.stringContaining("mount.objectivefs: there is no such program"),
      });
  });

  test.each<[number, string, string, string]>([
    [64, "", "failed-precondition", "admin key"],
    [65, "", "failed-precondition", "cannot decrypt"],
    [78, "", "failed-precondition", "OBJECTIVEFS_PASSPHRASE"],
    [1, "ERROR: AccessDenied: no", "permission-denied", "AccessDenied"],
    [1, "ERROR: connection timed out", "unavailable", "timed out"],
    [1, "ERROR: something new", "internal", "something new"],
    [77, `ERROR: ${secretKey} is wrong`, "internal", "exit code 77"],
  ])("with exit code %i and %j is %s", async (code, words, wanted, part) => {
    await rig.fake.answer(code, words);
    const [create, remove, check] = everything();
    // An unknown failure shows that the storage answers, and proves nothing about volumes.
    const proved = wanted === "internal" ? "unavailable" : wanted;
    for (const [work, answer] of [
      [create, proved],
      [remove, proved],
      [check, wanted],
    ] as const) {
      const error = await work?.().catch((failed: unknown) => failed);
      expect(error).toMatchObject({ code: answer, message: expect.stringContaining(part) });
      expect(String(error)).not.toContain(secretKey);
    }
  });

  test("after the file system was created anyway is not final", async () => {
    const { env } = rig.fake.dying(3, "after");
    const dying = localRunner({ env: { PATH: `${rig.fake.bin}:/usr/bin:/bin`, ...env } });
    await expect(rig.open({ runner: dying }).create(volumeOf("a"), call)).rejects.toMatchObject({
      code: "unavailable",
    });
    expect((await rig.remains()).length).toBe(1);
    expect((await driver.create(volumeOf("a"), call)).bytes).toBe(gib);
  });
});

test("a destruction that reports every removed object is waited for", async () => {
  const { id } = await driver.create(volumeOf("a"), call);
  const program = join(rig.fake.bin, "mount.objectivefs");
  const kept = await Bun.file(program).text();
  await writeFile(
    program,
    kept.replace("end() {", '[ "$1" = destroy ] && head -c 1000000 /dev/zero | tr "\\\\0" "x"\nend() {'),
  );
  await driver.delete(id, call);
  expect(await rig.remains()).toEqual([]);
});
