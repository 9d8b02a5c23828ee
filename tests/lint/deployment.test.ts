import { describe, expect, test } from "bun:test";
import { modules } from "../../lib/drivers/index.ts";
import type { Input } from "../../lib/lint/input.ts";
import { lint } from "../../lib/lint/lint.ts";

const outside = { env: () => undefined, file: () => undefined };

/** `file:line severity rule message` of every problem, of inputs as `[file, text, role]`. */
function gist(...inputs: readonly (readonly [string, string, Input["role"]])[]): readonly string[] {
  const all = inputs.map(([file, text, role]): Input => ({ file, text, role }));
  return lint(all, { modules, resolver: outside, checkEnvironment: false }).problems.map(
    ({ file, line, severity, rule, message }) => `${file}:${line} ${severity} ${rule} ${message}`,
  );
}

const main = (more = ""): string => `driver: proxy\nproxy:\n  configFolder: /connections\n${more}`;
const zones =
  "  nodeTopology: { type: zone, fromRegexp: [{ topologyKey: zone, source: env, envName: Z, default: a }] }\n";
const nfs = (folder: string, more = "", host = "nas.example.org"): string =>
  `driver: nfs-client\nnfs:\n  shareHost: ${host}\n  shareBasePath: ${folder}\n  controllerBasePath: /storage\n${more}`;
const inZone = "proxy: { perDriver: { topology: [{ requirements: { zone: a } }] } }\n";
const asProxy = nfs("/export/b").replace("nfs-client", "proxy");
const wrong = "c/bad.yaml:1 error unknown-driver a connection cannot be a proxy";

describe("a connection file that says driver: proxy", () => {
  test("is one error at its first line, and changes nothing for its siblings and the main file", () => {
    const files = [
      ["proxy.yaml", main(zones), "main"],
      ["c/bad.yaml", asProxy, "connection"],
      ["c/nas.yaml", nfs("/export/a", inZone), "connection"],
    ] as const;
    expect(gist(...files)).toEqual([wrong]);
    expect(gist(files[1], files[2], files[0])).toEqual([wrong]);
  });

  test.each(["a", "z"])("is that error in any alphabetical order (%s.yaml), in a folder without a main file", name => {
    const bad = [`${name}.yaml`, asProxy, "found"] as const;
    const good = ["nas.yaml", nfs("/export/a", inZone), "found"] as const;
    const inOrder = name === "a" ? [bad, good] : [good, bad];
    expect(gist(...inOrder)).toEqual([wrong.replace("c/bad", name)]);
  });

  test.each(["a", "z"])("is one error next to a main file of the same folder (%s.yaml)", name => {
    const bad = [`${name}.yaml`, "driver: proxy\nproxy: {}\n", "found"] as const;
    const good = ["m.yaml", main(zones), "found"] as const;
    const message = `${name}.yaml:1 error several-main-files the main file is m.yaml; another file next to it cannot have "driver: proxy"`;
    expect(gist(...(name === "a" ? [bad, good] : [good, bad]))).toEqual([message]);
  });

  test("does not replace the named main file, even if it is one", () => {
    const found = gist(
      ["a/proxy.yaml", main(zones), "main"],
      ["c/other.yaml", main(), "found"],
      ["c/nas.yaml", nfs("/export/a", inZone), "found"],
    );
    expect(found).toEqual([
      'c/other.yaml:1 error several-main-files the main file is a/proxy.yaml; another file next to it cannot have "driver: proxy"',
    ]);
  });

  test("is that error in a Secret, too, next to connections", () => {
    const block = (text: string) => text.replace(/^(?=.)/gm, "    ");
    const secret = `apiVersion: v1\nkind: Secret\nmetadata: { name: x }\nstringData:\n  nas.yaml: |\n${block(nfs("/export/a"))}  bad.yaml: |\n${block(asProxy)}`;
    expect(gist(["proxy.yaml", main(), "main"], ["s.yaml", secret, "given"])).toEqual([
      "s.yaml:12 error unknown-driver bad.yaml: a connection cannot be a proxy",
    ]);
  });
});

describe("two deployments in one stream of manifests", () => {
  const labelled = (instance: string) =>
    instance === "" ? "" : `, labels: { app.kubernetes.io/instance: ${instance} }`;
  const objects = (instance: string, folder: string, more = ""): string =>
    [
      `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: config-${instance}${labelled(instance)} }\ndata:\n  proxy.yaml: |\n${main(more).replace(/^(?=.)/gm, "    ")}`,
      `apiVersion: v1\nkind: Secret\nmetadata: { name: connections-${instance}${labelled(instance)} }\nstringData:\n  ${instance || "nas"}.yaml: |\n${nfs(folder).replace(/^(?=.)/gm, "    ")}`,
      `apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: class-${instance}${labelled(instance)} }\nprovisioner: ${instance || "nas"}.example\nparameters: { connection: ${instance || "nas"} }\n`,
    ].join("---\n");

  test("are checked separately if the label app.kubernetes.io/instance distinguishes them", () => {
    const both = `${objects("a", "/export/a")}---\n${objects("b", "/export/b")}`;
    expect(gist(["-", both, "given"])).toEqual([]);
    const wrongClass = both.replace("connection: b", "connection: a");
    expect(gist(["-", wrongClass, "given"])).toEqual([expect.stringContaining("class-connection-missing")]);
  });

  test("are an error without the label", () => {
    const both = `${objects("", "/export/a")}---\n${objects("b", "/export/b", "  listing: partial\n").replaceAll(labelled("b"), "")}`;
    expect(gist(["-", both, "given"])).toEqual([expect.stringContaining("several-main-files")]);
  });
});

describe("a main file that is wrong as a whole", () => {
  test("is reported once, without its consequences", () => {
    const text = main(`${zones}  groups: { both: { members: [nas] } }\n`).replace("proxy:\n", "proxi:\n");
    const storageClass =
      "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: x }\nprovisioner: a.example\nparameters: { connection: both }\n";
    const found = gist(
      ["proxy.yaml", text, "main"],
      ["c/nas.yaml", nfs("/export/a", inZone), "connection"],
      ["class.yaml", storageClass, "given"],
    );
    expect(found.map(each => each.split(" ")[0])).toEqual(["proxy.yaml:1", "proxy.yaml:2"]);
  });
});

describe("an empty file in the connection folder", () => {
  test.each([
    ["empty", ""],
    ["only comments", "# to be done\n"],
    ["only a line of dashes", "---\n"],
  ])("is an error: %s", (_what, text) => {
    expect(gist(["proxy.yaml", main(), "main"], ["c/nas.yaml", text, "connection"])).toEqual([
      'c/nas.yaml:1 error empty-file the file of connection "nas" is empty or contains only comments',
    ]);
  });

  test("is an error for a named file, too, and for the main file", () => {
    expect(gist(["nas.yaml", "# x\n", "given"])).toEqual([expect.stringContaining("nothing-to-check")]);
    expect(gist(["proxy.yaml", "", "main"])).toEqual([expect.stringContaining("empty-file the main file is empty")]);
  });
});

describe("two connections on one storage", () => {
  const dataset = (text: string, snaps: string, more = "", driver = "nfs"): string =>
    `driver: zfs-generic-${driver}\n${more}sshConnection: { host: nas, username: root, password: x, hostKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqfzv2hQH0KfTzJrJYgXcXhH0kqPcF0mKpGv5dYXQ1R" }\nzfs:\n  datasetParentName: ${text}\n  detachedSnapshotsDatasetParentName: ${snaps}\n` +
    (driver === "nfs"
      ? 'nfs:\n  shareHost: nas\n  shareStrategy: setDatasetProperties\n  shareStrategySetDatasetProperties: { properties: { sharenfs: "on" } }\n'
      : 'smb:\n  shareHost: nas\n  shareStrategy: setDatasetProperties\n  shareStrategySetDatasetProperties: { properties: { sharesmb: "on" } }\n');
  const pair = (one: string, two: string) =>
    gist(["one.yaml", one, "connection"], ["two.yaml", two, "connection"])
      .filter(each => each.includes("shared-storage"))
      .map(each => each.replace("shared-storage ", ""));

  test("are one error for each pair, with both positions", () => {
    expect(pair(nfs("/export/k8s"), nfs("/export/k8s"))).toEqual([
      'two.yaml:4 error this is the same as nfs.shareBasePath of connection "one" (one.yaml:4), so each treats the other\'s volumes as its own',
    ]);
    expect(pair(dataset("tank/a", "tank/s"), dataset("tank/a", "tank/s"))).toHaveLength(1);
  });

  test("are an error, whatever third connection is on it, too", () => {
    const first = (third: string, one: string, two = one) =>
      gist(["a.yaml", third, "connection"], ["b.yaml", one, "connection"], ["c.yaml", two, "connection"]).filter(each =>
        each.includes("error shared-storage"),
      );
    const nfsHere = dataset("tank/k8s/a", "tank/k8s/s");
    const said = [
      expect.stringContaining(
        'c.yaml:4 error shared-storage this is the same as zfs.datasetParentName of connection "b"',
      ),
    ];
    expect(first(dataset("tank/k8s/a", "tank/k8s/s", "", "smb"), nfsHere)).toEqual(said);
    expect(first(dataset("tank/k8s", "tank/other"), nfsHere)).toEqual(said);
    const marked = (id: string) => dataset("tank/k8s/a", "tank/k8s/s", `instance_id: ${id}\n`);
    expect(first(marked("x"), marked("y"))).toHaveLength(1);
    // Different volumes, but the same snapshots.
    expect(
      first(nfs("/export/x"), dataset("tank/k8s", "tank/snaps/all"), dataset("tank/k8s/b", "tank/snaps/all")),
    ).toEqual([expect.stringContaining("c.yaml:5 error shared-storage")]);
  });

  test.each([
    ["another case", "NAS.example.org"],
    ["the dot of the root zone", "nas.example.org."],
  ])("are one host in %s", (_what, host) => {
    expect(pair(nfs("/export/k8s"), nfs("/export/k8s", "", host))).toHaveLength(1);
  });

  test.each([
    ["volumes", "/export/k8s/v/team"],
    ["snapshots", "/export/k8s/s/team"],
    ["unfinished work", "/export/k8s/.csimux/x"],
  ])("clash where one lies among the %s of the other", (_what, folder) => {
    expect(pair(nfs("/export/k8s"), nfs(folder))).toEqual([expect.stringMatching(/^two.yaml:4 error this is inside /)]);
  });

  test("do not clash where one lies next to the volumes of the other: a warning", () => {
    expect(pair(nfs("/export/k8s"), nfs("/export/k8s/team"))).toEqual([
      expect.stringMatching(/^two.yaml:4 warning this is inside nfs.shareBasePath of connection "one" \(one.yaml:4\)/),
    ]);
    expect(pair(dataset("tank/k8s", "tank/s"), dataset("tank/k8s/team", "tank/t"))).toEqual([
      expect.stringMatching(/^two.yaml:4 warning /),
    ]);
  });

  test.each([
    ["protocol", "", dataset("tank/a", "tank/s", "", "smb")],
    ["two instance_ids", "instance_id: a\n", dataset("tank/a", "tank/s", "instance_id: b\n")],
  ])("do not clash where %s separates their volumes: a warning", (_what, instance, two) => {
    expect(pair(dataset("tank/a", "tank/s", instance), two)).toEqual([expect.stringMatching(/^two.yaml:\d warning /)]);
  });

  test("clash where only one has an instance_id: volumes without one are of both", () => {
    expect(pair(dataset("tank/a", "tank/s"), dataset("tank/a", "tank/s", "instance_id: b\n"))).toEqual([
      expect.stringMatching(/^two.yaml:\d error .* treats the other's volumes as its own/),
    ]);
  });

  test("are independent on other systems or in sibling folders", () => {
    expect(pair(nfs("/export/k8s"), nfs("/export/k8s2"))).toEqual([]);
    expect(pair(nfs("/export/k8s"), nfs("/export/k8s", "", "nas2.example.org"))).toEqual([]);
  });
});

describe("a class of ObjectiveFS", () => {
  const file = [
    "c/ofs.yaml",
    "driver: objectivefs\nobjectivefs: { pool: csi, env: { OBJECTSTORE: 's3://' } }\n",
  ] as const;
  const storageClass = (parameters: string): string =>
    `apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: a }\nprovisioner: x\nparameters:\n  connection: ofs\n${parameters}`;
  const said = (parameters: string) =>
    gist([...file, "connection"], ["class.yaml", storageClass(parameters), "given"]).join("\n");

  test("without the secret that nodes take their keys from is reported, and good with it", () => {
    expect(said("")).toContain(
      'warning class-without-login nodes have no keys to the object store of connection "ofs"',
    );
    const secret =
      "  csi.storage.k8s.io/node-stage-secret-name: a\n  csi.storage.k8s.io/node-stage-secret-namespace: b\n";
    expect(said(secret)).toBe("");
  });

  test("may set variables of the mount", () => {
    expect(said("  env.CACHESIZE: 1Gi\n")).not.toContain("env.CACHESIZE");
    expect(said("  env.CACHESIZ: 1Gi\n")).toContain('error unknown-parameter unknown parameter "env.CACHESIZ"');
  });
});
