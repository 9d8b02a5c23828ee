import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Capability } from "../../lib/core/access.ts";
import type { Call, Secrets } from "../../lib/core/call.ts";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";
import { hostPrograms } from "../../lib/io/host-programs.ts";
import { localRunner } from "../../lib/io/local.ts";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import {
  accessKey,
  adminLicence,
  environment,
  FakeObjectiveFs,
  licence,
  passphrase,
  secretKey,
} from "../fakes/mount-objectivefs.ts";
import { fakeOneclient, token } from "../fakes/oneclient.ts";
import type { FakeProgram } from "../fakes/program.ts";
import { pause } from "../waiting.ts";
import { callOf, codeOf, isRoot, Lab, mountinfo, writer } from "./lab.ts";

const hasFuse = existsSync("/dev/fuse") && existsSync("/usr/bin/bindfs");

let lab: Lab;
let store: FakeObjectiveFs;
let onedata: FakeProgram;
let node: NodeVolumes;
let path: string;
beforeEach(async () => {
  lab = await Lab.open();
  store = await FakeObjectiveFs.at(lab.at("ofs"));
  onedata = await fakeOneclient(lab.at("onedata"));
  path = `${store.bin}:${onedata.bin}:/usr/sbin:/usr/bin:/sbin:/bin`;
  node = nodeWith(path);
  await store.foreign("csi", "a");
  await writeFile(join(store.place("csi", "a"), "content"), "kept");
});
afterEach(() => lab.close());

function nodeWith(PATH: string, hostMounts = false, env: Readonly<Record<string, string>> = {}): NodeVolumes {
  const runner = localRunner({ env: { ...env, PATH } });
  const host = hostMounts ? hostPrograms(runner, "/") : runner;
  const known = attachers(lab.ports(runner, { host, hostMounts }));
  return lab.node(runner, mountinfo, { host, attachers: known });
}

const at = () => lab.at("staging", "a");
const withSecrets = (secrets: Secrets): Call => callOf(undefined, undefined, secrets);
const keys = Object.fromEntries(Object.entries(environment).map(([name, value]) => [`env.${name}`, value]));
const { "env.OBJECTSTORE": _, ...storeKeys } = keys;
const ofs = { node_attach_driver: "objectivefs", filesystem: "csi/a", "env.OBJECTSTORE": "minio://" };
const one = { node_attach_driver: "oneclient", server: "onezone.example.org" };

const stage = (context: Readonly<Record<string, string>>, secrets: Secrets, more: Partial<Capability> = {}) =>
  node.stage(lab.stage("a", { context, capability: { ...writer, ...more } }), withSecrets(secrets));
const unstage = () => node.unstage({ volumeId: "a", stagingPath: at() }, callOf());
const recorded = async (): Promise<string> => {
  const files = await readdir(lab.at("records")).catch(() => []);
  return (await Promise.all(files.map(file => readFile(lab.at("records", file), "utf8")))).join();
};

/** Ends the daemon of a mount, as the end of its container does. */
async function endDaemon(mountPoint: string): Promise<void> {
  for (const pid of (await readdir("/proc")).filter(name => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).split("\0");
    if (!words.includes(mountPoint) || !(await readlink(`/proc/${pid}/exe`).catch(() => "")).endsWith("/bindfs"))
      continue;
    process.kill(Number(pid), "SIGKILL");
  }
  const isGone = () =>
    readFile(join(mountPoint, "content")).then(
      () => false,
      (error: { readonly code?: string }) => error.code === "ENOTCONN",
    );
  for (const end = Date.now() + 10_000; !(await isGone()) && Date.now() < end; ) await pause(5);
}

describe.skipIf(!isRoot)("a file system in an object store", () => {
  test("is staged, published and unstaged with nothing but the volume's context and the stage secret", async () => {
    await stage(ofs, storeKeys);
    expect(await readFile(join(at(), "content"), "utf8")).toBe("kept");
    await node.publish(lab.publish("a", { context: ofs }), callOf());
    await writeFile(lab.at("pods", "a", "mount", "more"), "written");
    expect(await readFile(join(store.place("csi", "a"), "more"), "utf8")).toBe("written");
    await stage(ofs, storeKeys);
    expect(await lab.mounted()).toEqual(["pods/a/mount", "staging/a"]);
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
    await unstage();
    expect(await lab.mounted()).toEqual([]);
    expect(await store.calls()).toEqual([`csi/a ${at()}`]);
  });

  test("passes its keys in the environment of the program, and in no command line, record or message", async () => {
    await stage(ofs, storeKeys);
    const seen = (await store.calls()).join() + (await recorded());
    for (const secret of [accessKey, secretKey, passphrase]) expect(seen).not.toContain(secret);
    expect(await store.environment()).toContain(`SECRET_KEY=${secretKey}`);
    await unstage();
    await store.answer(1, `ERROR: AccessDenied for ${secretKey}`);
    await expect(stage(ofs, storeKeys)).rejects.toMatchObject({
      code: "permission-denied",
      message: expect.not.stringContaining(secretKey),
    });
  });

  test("is mounted with the licence only, without the admin key after it", async () => {
    await stage(ofs, { ...storeKeys, "env.OBJECTIVEFS_LICENSE": adminLicence });
    expect(await store.environment()).toContain(`OBJECTIVEFS_LICENSE=${licence}\n`);
    expect(await store.environment()).not.toContain(adminLicence);
  });

  test("prefers variables of the volume to those of the secret, and keys of its connection to others", async () => {
    const context = { ...ofs, provisioner_driver_instance_id: "one", "env.ENDPOINT": "https://of-the-volume" };
    const scoped = { "democratic-csi.org/one/env.SECRET_KEY": secretKey, "env.SECRET_KEY": "another's" };
    await stage(context, { ...storeKeys, ...scoped });
    expect(await store.environment()).toContain("ENDPOINT=https://of-the-volume\n");
  });

  test("can name its store itself, as manually created volumes do, and a file system type", async () => {
    const context = { node_attach_driver: "objectivefs", filesystem: "minio://csi/a" };
    await stage(context, storeKeys, { fsType: "fuse.objectivefs" });
    expect(await store.calls()).toEqual([`csi/a ${at()}`]);
    expect(await store.environment()).toContain("OBJECTSTORE=minio://\n");
  });

  test.skipIf(!hasFuse)(
    "is mounted with the options of class and secret, and read-only with a read-only mode",
    async () => {
      await stage(
        ofs,
        { ...storeKeys, mount_flags: "noatime" },
        { mode: "multi-node-reader-only", mountFlags: ["nodev"] },
      );
      expect(await store.calls()).toEqual([`-o noatime,nodev,ro csi/a ${at()}`]);
      expect((await lab.mounts())[0]?.options).toContain("ro");
      expect(await codeOf(stage(ofs, storeKeys))).toBe("already-exists");
    },
  );

  test("is mounted by the host's program if configured, and reports a missing program", async () => {
    node = nodeWith(path, true);
    const failed = stage(ofs, storeKeys);
    // The host of this test lacks the program.
    await expect(failed).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("not installed on the host"),
    });
    expect(await lab.mounted()).toEqual([]);
  });

  test.skipIf(!hasFuse)(
    "whose program has ended is published to no pod until the next staging has mounted it",
    async () => {
      const health = () => node.health({ volumeId: "a", path: at() }, callOf());
      const publish = () => codeOf(node.publish(lab.publish("a", { context: ofs }), callOf()));
      await stage(ofs, storeKeys);
      expect([await publish(), await health()]).toEqual(["ok", []]);
      await endDaemon(at());
      expect(await publish()).toBe("unavailable");
      expect(await health()).toMatchObject([{ reason: "StaleHandle" }]);
      await stage(ofs, storeKeys);
      expect([await publish(), await health()]).toEqual(["ok", []]);
      expect(await readFile(lab.at("pods", "a", "mount", "content"), "utf8")).toBe("kept");
      await endDaemon(at());
      await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf());
      await unstage();
      expect(await lab.mounted()).toEqual([]);
    },
  );

  test.each<[string, Record<string, string>, Secrets, string, string]>([
    [
      "a passphrase",
      ofs,
      { ...storeKeys, "env.OBJECTIVEFS_PASSPHRASE": "" },
      "failed-precondition",
      "missing or invalid",
    ],
    [
      "the right passphrase",
      ofs,
      { ...storeKeys, "env.OBJECTIVEFS_PASSPHRASE": "x" },
      "failed-precondition",
      "cannot be decrypted",
    ],
    ["keys", ofs, {}, "permission-denied", "AccessDenied"],
    ["an object store", { ...ofs, "env.OBJECTSTORE": "" }, {}, "invalid-argument", "not an object store"],
    ["a file system", { ...ofs, filesystem: "" }, storeKeys, "invalid-argument", "not a bucket"],
    ["a name of one", { ...ofs, filesystem: "-o x" }, storeKeys, "invalid-argument", "not a bucket"],
    ["one below the pool", { ...ofs, filesystem: "csi/../etc" }, storeKeys, "invalid-argument", "not a bucket"],
    ["one store", { ...ofs, filesystem: "s3://csi/a" }, storeKeys, "invalid-argument", "is not in minio://"],
    ...[
      ...[
        "LD_PRELOAD",
        "PATH",
        "OPENSSL_CONF",
        "OPENSSL_MODULES",
        "GLIBC_TUNABLES",
        "LOCPATH",
        "HTTPS_PROXY",
        "http_proxy",
      ],
      ...[
        "SSL_CERT_FILE",
        "CURL_CA_BUNDLE",
        "HOSTALIASES",
        "AWS_CONFIG_FILE",
        "DISKCACHE_PATH",
        "toString",
        "__proto__",
      ],
    ].flatMap((name): [string, Record<string, string>, Record<string, string>, string, string][] => [
      [
        `a harmless variable ${name} of the volume`,
        { ...ofs, [`env.${name}`]: "/x" },
        storeKeys,
        "invalid-argument",
        name,
      ],
      [
        `a harmless variable ${name} of the secret`,
        ofs,
        { ...storeKeys, [`env.${name}`]: "/x" },
        "invalid-argument",
        name,
      ],
    ]),
  ])("that lacks %s is refused, and leaves nothing", async (_lacks, context, secrets, code, part) => {
    await expect(stage(context, secrets)).rejects.toMatchObject({ code, message: expect.stringContaining(part) });
    expect(await lab.mounted()).toEqual([]);
    expect(await recorded()).toBe("");
  });

  test.each(["before", "after"] as const)(
    "whose staging is interrupted %s the program mounts it is staged once by the retry, or unstaged",
    async when => {
      for (const repeat of [true, false]) {
        const { env, dead } = store.dying(1, when);
        node = nodeWith(path, false, env);
        expect(await codeOf(stage(ofs, storeKeys))).toBe("unavailable");
        expect(dead()).toBe(true);
        expect((await lab.mounted()).length).toBe(when === "after" ? 1 : 0);
        node = nodeWith(path);
        if (repeat) {
          await stage(ofs, storeKeys);
          expect(await readFile(join(at(), "content"), "utf8")).toBe("kept");
          expect(await lab.mounted()).toEqual(["staging/a"]);
        }
        await unstage();
        expect([await lab.mounted(), await recorded()]).toEqual([[], ""]);
      }
    },
  );

  test("is refused with the name of a missing program, and other volumes keep working", async () => {
    node = nodeWith("/usr/sbin:/usr/bin:/sbin:/bin");
    await expect(stage(ofs, storeKeys)).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("mount.objectivefs: there is no such program"),
    });
    await lab.source("b");
    await node.stage(lab.stage("b"), callOf());
    expect(await lab.mounted()).toEqual(["staging/b"]);
  });
});

describe.skipIf(!isRoot)("a volume of Onedata", () => {
  test("is mounted for its spaces, with options of oneclient and its token in the environment", async () => {
    const context = { ...one, space_names: "first, second one", space_ids: "0a1b" };
    await stage(context, { token }, { mountFlags: ["--force-proxy-io"] });
    expect(await onedata.calls()).toEqual([
      `-H onezone.example.org --force-proxy-io --space first --space second one --space-id 0a1b ${at()}`,
    ]);
    expect(await onedata.environment()).toContain(`ONECLIENT_ACCESS_TOKEN=${token}\n`);
    expect(await recorded()).not.toContain(token);
    await stage(context, { token }, { mountFlags: ["--force-proxy-io"] });
    expect((await onedata.calls()).length).toBe(1);
    await unstage();
    expect(await lab.mounted()).toEqual([]);
  });

  test("can contain its token, but prefers the token of the secret", async () => {
    await stage({ ...one, token }, {});
    await unstage();
    await stage({ ...one, token: "old" }, { token });
    await unstage();
    await expect(stage({ ...one, token: "old-token" }, {})).rejects.toMatchObject({
      code: "permission-denied",
      message: expect.not.stringContaining("old-token"),
    });
  });

  test.skipIf(!hasFuse)("is mounted read-only with a read-only mode", async () => {
    await stage(one, { token }, { mode: "single-node-reader-only" });
    expect(await onedata.calls()).toEqual([`-H onezone.example.org -o ro ${at()}`]);
  });

  test.each<[string, Record<string, string>, readonly string[]]>([
    ["no server", { node_attach_driver: "oneclient" }, []],
    ["an option for a server", { ...one, server: "-h" }, []],
    ["an option for a space", { ...one, space_names: "--token" }, []],
    ["an option for the id of a space", { ...one, space_ids: "a,-u" }, []],
    ["a token among its flags", one, ["-t", "secret"]],
    ["a token in a flag", one, ["--token=secret"]],
    ["a shortened option for a token", one, ["--tok=secret"]],
    ["a file of the node", one, ["--config=/etc/shadow"]],
    ["a file of the node, behind a number", one, ["--no-buffer", "-c", "/etc/shadow"]],
    ["a folder of the node", one, ["--log-dir=/etc"]],
    ["another server", one, ["-H", "attacker.example.org"]],
    ["a path for a number", one, ["--provider-timeout=/etc/shadow"]],
  ])("with %s is refused before any program runs", async (_what, context, mountFlags) => {
    expect(await codeOf(stage(context, { token }, { mountFlags }))).toBe("invalid-argument");
    expect(await onedata.calls()).toEqual([]);
  });
});

test.each([
  ["objectivefs", "minio://csi/a"],
  ["oneclient", "oneclient"],
])("a mount of %s made by another program is recognised by its type and source", (fsType, source) => {
  const line = (type: string) => `2 1 0:39 / /staging/a rw - ${type} ${source} rw`;
  const share = { fsType, source };
  for (const type of [fsType, `fuse.${fsType}`]) {
    const table = new MountTable(parseMountinfo(`1 0 0:1 / / rw - tmpfs none rw\n${line(type)}\n`));
    expect(table.isOf("/staging/a", share)).toBe(true);
    expect(table.isOf("/staging/a", { ...share, source: `${source}b` })).toBe(false);
  }
});
