import { describe, expect, test } from "bun:test";
import { connection, gist, main, nfs, noDefaults, outside } from "./reading.ts";

describe("a connection file", () => {
  test("gives driver, settings with defaults filled in, and the common keys", () => {
    const text = `${nfs}  dirPermissionsMode: 0777
instance_id: a
suspended: true
proxy:
  perDriver:
    labels: { tier: fast }
    topology:
      - requirements: { zone: z1 }
        extra: { custom.example/tier: gold }
_private: { csi: { volume: { deleteStrategy: retain } } }
csi: { access_modes: [SINGLE_NODE_WRITER] }
`;
    const { config, diagnostics } = connection(text);
    expect(diagnostics).toEqual([]);
    expect(config).toMatchObject({
      name: "c1",
      driver: "nfs-client",
      instanceId: "a",
      suspended: true,
      labels: { tier: "fast" },
      topology: [{ requirements: { zone: "z1" }, extra: { "custom.example/tier": "gold" } }],
      deleteStrategy: "retain",
      accessModes: ["single-node-writer"],
      settings: { nfs: { shareBasePath: "/export/k8s", dirPermissionsMode: "0777", requireMount: true } },
    });
  });

  test.each([
    ["", ["empty-file@1:1 "]],
    ["just text", ["missing-key@1:1 driver"]],
    ["driver: nfs-clent\n", ["unknown-driver@1:9 driver"]],
    ["driver: proxy\n", ["unknown-driver@1:9 driver"]],
    ["driver: nfs-client\n", ["missing-key@1:1 nfs"]],
    ["driver: nfs-client\nnfs: 3\n", ["wrong-type@2:6 nfs"]],
    [nfs.replace("shareBasePath", "shareBasePth"), ["unknown-key@4:3 nfs.shareBasePth"]],
    [nfs.replace("/storage", "storage"), ["invalid-value@5:23 nfs.controllerBasePath"]],
    [nfs.replace("/storage", "/a/../b"), ["invalid-value@5:23 nfs.controllerBasePath"]],
    [`${nfs}  dirPermissionsMode: 888\n`, ["invalid-value@6:23 nfs.dirPermissionsMode"]],
    [`${nfs}  requireMount: yes\n`, ["wrong-type@6:17 nfs.requireMount"]],
    [`${nfs}  snapshots: { default_driver: resticc }\n`, ["invalid-value@6:32 nfs.snapshots.default_driver"]],
    [`${nfs}proxy: { perDriver: { topology: [] } }\n`, ["invalid-value@6:23 proxy.perDriver.topology"]],
    [
      `${nfs}proxy: { perDriver: { topology: [{ extra: {} }] } }\n`,
      ["missing-key@6:34 proxy.perDriver.topology[0].requirements"],
    ],
    [
      `${nfs}proxy:\n  perDriver:\n    topology:\n      - requirements: { zone: z1 }\n        extra: { org.democratic-csi.topology/zone: z2 }\n`,
      ['extra-collides@10:18 proxy.perDriver.topology[0].extra."org.democratic-csi.topology/zone"'],
    ],
    [
      `${nfs}proxy: { perDriver: { topology: [{ requirements: { prototype: lab, zone: z1 } }] } }\n`,
      ["invalid-value@6:52 proxy.perDriver.topology[0].requirements.prototype"],
    ],
    [
      `${nfs}proxy: { perDriver: { labels: { constructor: a, __proto__: b } } }\n`,
      ["invalid-value@6:33 proxy.perDriver.labels.constructor", "invalid-value@6:49 proxy.perDriver.labels.__proto__"],
    ],
    [`${nfs}  sharehost: x\n`, ["unknown-key@6:3 nfs.sharehost"]],
    [`${nfs}supended: true\n`, ["unknown-key@6:1 supended"]],
    [`${nfs}  requireMount=true: x\n`, ['unknown-key@6:3 nfs."requireMount=***"']],
  ])("that cannot work is refused with the place of each problem: %#", (text, expected) => {
    const { config, diagnostics } = connection(text);
    expect(config).toBeUndefined();
    expect(gist(diagnostics)).toEqual(expected);
    expect(diagnostics.some(each => each.blocks)).toBe(true);
  });

  test.each([
    ["tier", true],
    ["x.example/tier", true],
    ["bad key", false],
    ["a/b/c", false],
    ["", false],
    ["Up.example/tier", false],
    ["x.example/", false],
  ])("a volume can carry the label %j: %p", (key, right) => {
    const place = `{ requirements: { zone: z1 }, extra: { "${key}": gold } }`;
    const { config, diagnostics } = connection(`${nfs}proxy: { perDriver: { topology: [${place}] } }\n`);
    expect(config !== undefined).toBe(right);
    expect(diagnostics.map(({ rule }) => rule)).toEqual(right ? [] : ["invalid-value"]);
  });

  test.each([
    [`${nfs}colour: red\n`, ["unknown-key@6:1 colour"]],
    // Another driver's section, although it resembles one of this driver.
    [`${nfs}zfs: { datasetParentName: tank/k8s }\n`, ["unknown-key@6:1 zfs"]],
    [nfs.replace("shareBasePath", "sharePath"), ["renamed-key@4:3 nfs.sharePath"]],
    [`${nfs}  requireMount: "true"\n`, ["retyped-value@6:17 nfs.requireMount"]],
    [`${nfs}instance_id: 7\n`, ["retyped-value@6:14 instance_id"]],
    [nfs.replace("/export/k8s", "/${NAS}"), ["unexpanded-variable@4:18 nfs.shareBasePath"]],
    [`${nfs}proxy: { configFolder: /x }\n`, ["ignored-key@6:10 proxy.configFolder"]],
    [`${nfs}instance_id:\n`, []],
  ])("that works anyway is used, with a warning: %#", (text, expected) => {
    const { config, diagnostics } = connection(text);
    expect(config).toBeDefined();
    expect(gist(diagnostics)).toEqual(expected);
  });

  test("a mistyped key names the right one", () => {
    expect(connection(`${nfs}  shareHots: x\n`).diagnostics[0]?.fix).toBe('did you mean "shareHost"?');
    expect(connection(`${nfs}instanceId: x\n`).diagnostics[0]?.fix).toBe('did you mean "instance_id"?');
    expect(connection(`${nfs}controllerBasePath: /x\n`).diagnostics[0]?.fix).toContain('belongs under "nfs"');
  });

  test("a name that could be a path is refused", async () => {
    const { readConnection } = await import("../../lib/config/connection.ts");
    const { modules } = await import("../../lib/drivers/index.ts");
    const read = readConnection("../x", "x.yaml", nfs, noDefaults, outside(), modules);
    expect(read.config).toBeUndefined();
    expect(gist(read.diagnostics)).toEqual(["bad-connection-name@1:1 "]);
  });
});

describe("defaults of the main file", () => {
  const defaults = (text: string) => {
    const { config } = main(`driver: proxy\nproxy: { configFolder: /c }\n${text}`);
    if (!config) throw new Error("main file refused");
    return config.defaults;
  };

  test("apply below the connection: mappings merge, lists replace, empty values remove", () => {
    const below = defaults(
      "nfs: { shareHost: default, dirPermissionsMode: '0700', snapshots: { restic: { tags: [a, b, c] } } }\n",
    );
    const own = `${nfs}  dirPermissionsMode:\n  snapshots: { restic: { tags: [x] } }\n`;
    expect(connection(own, below).config?.settings).toMatchObject({
      nfs: { shareHost: "nas.example.org", snapshots: { restic: { tags: ["x"] } } },
    });
    expect(connection(own, below).config?.settings).not.toHaveProperty("nfs.dirPermissionsMode");
  });

  test("serve several drivers: a driver ignores the keys of others", () => {
    const below = defaults("smb: { shareHost: s }\nnfs: { shareHost: n, unheardOf: 1 }\n");
    expect(connection(nfs.replace("  shareHost: nas.example.org\n", ""), below)).toMatchObject({
      config: { settings: { nfs: { shareHost: "n" } } },
      diagnostics: [],
    });
  });

  test("never include instance_id, service or the proxy block", () => {
    const below = defaults("instance_id: main\nservice: { controller: {} }\n");
    expect(below.values).toEqual({});
    expect(connection(nfs, below).config?.instanceId).toBeUndefined();
  });

  test("a wrong value is reported where it is, also under another spelling of its key", () => {
    const text = `driver: zfs-generic-nfs
zfs:
  datasetParentName: a/v
  detachedSnapshotsDatasetParentName: a/s
  datasetEnableQuota: maybe
nfs: { shareHost: nas, shareStrategy: setDatasetProperties }
`;
    expect(gist(connection(text).diagnostics)).toContain("wrong-type@5:23 zfs.datasetEnableQuota");
  });

  test("a key replaces an inherited one in another spelling, and a secret replaces its file", () => {
    const system = (secret: string) => `httpConnection: { host: nas, ${secret} }\n`;
    const rest = `zfs: { datasetParentName: a/v, detachedSnapshotsDatasetParentName: a/s }\nnfs: { shareHost: nas }\n`;
    const read = (inherited: string, own: string) => {
      const { source } = main(`driver: proxy\nproxy: { configFolder: /c }\n${system(inherited)}`);
      const values = { httpConnection: (source.value as Record<string, object>)["httpConnection"] };
      const world = outside({}, { "/secret": "file" });
      return connection(`driver: freenas-api-nfs\n${system(own)}${rest}`, { ...noDefaults, values }, world).config
        ?.settings;
    };
    const http = (username: string, password: string) => ({ httpConnection: { username, password } });
    expect(read("username: a, password: text", "user: b, passwordFile: /secret")).toMatchObject(http("b", "file"));
    expect(read("user: a, passwordFile: /secret", "username: b, password: text")).toMatchObject(http("b", "text"));
    expect(read("username: a, passwordFile: /secret", "user: b, password: text")).toMatchObject(http("b", "text"));
    // What one file says twice stays a mistake.
    expect(read("username: a", "password: text, passwordFile: /secret")).toBeUndefined();
  });
});

describe("values from the environment and from files", () => {
  test("${env:NAME} is replaced, also within a text", () => {
    const text = nfs.replace("nas.example.org", "${env:NAS}.example.org");
    expect(connection(text, noDefaults, outside({ NAS: "n1" })).config?.settings).toMatchObject({
      nfs: { shareHost: "n1.example.org" },
    });
  });

  test("a variable that is not set is an error that names it", () => {
    const { config, diagnostics } = connection(nfs.replace("nas.example.org", "${env:NAS}"));
    expect(config).toBeUndefined();
    expect(diagnostics).toMatchObject([
      { rule: "unset-variable", line: 3, message: "the environment variable NAS is not set" },
    ]);
  });

  test("variables within a value from the environment are not replaced", () => {
    const text = nfs.replace("/export/k8s", "${env:A}");
    expect(connection(text, noDefaults, outside({ A: "/${env:B}", B: "no" })).config?.settings).toMatchObject({
      nfs: { shareBasePath: "/${env:B}" },
    });
  });

  test("a secret may come from a file", () => {
    const text = `${nfs}  snapshots: { kopia: { config_tokenFile: /run/token } }\n`;
    const read = connection(text, noDefaults, outside({}, { "/run/token": "hunter2\n" }));
    expect(read.config?.settings).toMatchObject({ nfs: { snapshots: { kopia: { config_token: "hunter2" } } } });
    const unread = connection(text);
    expect(gist(unread.diagnostics)).toEqual(["unreadable-file@6:43 nfs.snapshots.kopia.config_tokenFile"]);
    expect(unread.config).toBeUndefined();
  });
});
