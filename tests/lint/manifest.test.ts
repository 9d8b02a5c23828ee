import { describe, expect, test } from "bun:test";
import { check } from "./checking.ts";

const wrong = "driver: nfs-client\nnfs:\n  shareHost: a\n  shareBasePath: relative\n  controllerBasePath: /b\n";
const gist = (text: string, name = "s.yaml") =>
  check({ [name]: text }).map(({ line, column, rule, message }) => `${line}:${column} ${rule} ${message}`);
const secret = (body: string): string => `apiVersion: v1\nkind: Secret\nmetadata: { name: x }\n${body}`;
const indented = (text: string, spaces: number): string => text.replace(/^(?=.)/gm, " ".repeat(spaces));

describe("connection files inside a Secret manifest", () => {
  test.each([
    ["|", 4],
    ["|-", 4],
    ["|+", 6],
    ["|4", 6],
    ["| # a comment", 3],
  ])("in a literal block %s have positions in the manifest", (header, spaces) => {
    const text = secret(`stringData:\n  a.yaml: ${header}\n${indented(wrong, spaces)}\n`);
    expect(gist(text)).toEqual([`9:${spaces + 18} invalid-value a.yaml: must be an absolute path`]);
  });

  test("keep their positions behind blank and comment lines and other documents", () => {
    const text = `kind: ConfigMap\napiVersion: v1\n---\n${secret(`stringData:\n  a.yaml: |\n\n    # a comment\n${indented(wrong, 4)}`)}`;
    expect(gist(text)).toEqual(["14:22 invalid-value a.yaml: must be an absolute path"]);
  });

  test.each([
    [
      "folded",
      `stringData:\n  a.yaml: >\n    {driver: nfs-client, nfs: {shareHost: a,\n    shareBasePath: x, controllerBasePath: /b}}\n`,
      "1:57",
    ],
    ["quoted", `stringData:\n  a.yaml: ${JSON.stringify(wrong)}\n`, "4:18"],
    ["base64", `data:\n  a.yaml: ${Buffer.from(wrong).toString("base64")}\n`, "4:18"],
  ])("that are %s have the position of their key, and their own in the message", (_how, body, inner) => {
    expect(gist(secret(body))).toEqual([`5:3 invalid-value a.yaml:${inner}: must be an absolute path`]);
  });

  test("are found as kubectl prints them, in a List and as JSON", () => {
    const list = {
      apiVersion: "v1",
      kind: "List",
      items: [{ apiVersion: "v1", kind: "Secret", data: { "a.yaml": Buffer.from(wrong).toString("base64") } }],
    };
    expect(gist(JSON.stringify(list, undefined, 2), "-")[0]).toMatch(
      /^\d+:\d+ invalid-value a\.yaml:4:18: must be an absolute path$/,
    );
  });

  test("may also be given as files, which is not a duplicate", () => {
    const right = wrong.replace("relative", "/a");
    const files = { "a.yaml": right, "s.yaml": secret(`stringData:\n  a.yaml: |\n${indented(right, 4)}`) };
    expect(check(files)).toEqual([]);
    expect(check({ ...files, "a.yaml": `${right}# other\n` }).map(({ rule }) => rule)).toEqual([
      "duplicate-connection",
      "shared-storage",
    ]);
  });

  test("are distinguished from other content of Secrets", () => {
    const text = secret(
      `stringData:\n  password: x\n  values.yaml: 'a: [1'\n  note.txt: 'driver: 3'\ndata:\n  key.yaml: '!!!'\n  bin.yaml: ${Buffer.from([0xff, 0xfe, 0]).toString("base64")}\n`,
    );
    expect(gist(text).map(each => each.split(" ")[1])).toEqual(["nothing-to-check"]);
  });

  const right = wrong.replace("relative", "/a");
  const base64 = Buffer.from(right).toString("base64");

  test.each([
    ["plain text under data", `data:\n  a.yaml: |\n${indented(right, 4)}`, 'cannot be read: "data" holds base64'],
    ["base64 under stringData", `stringData:\n  a.yaml: ${base64}\n`, 'cannot be read: "data" holds base64'],
    [
      "a mapping",
      `stringData:\n  a.yaml:\n${indented(right, 4)}\ndata:\n  b.yaml: ${base64}\n`,
      "is not a configuration",
    ],
    ["no file of YAML", `stringData:\n  a: |\n${indented(right, 4)}`, "is ignored: connection files end in"],
    ["the same in base64", `data:\n  a.json: ${base64}\n`, "is ignored: connection files end in"],
    ["nothing", `stringData:\n  a.yaml: ""\ndata:\n  b.yaml: ${base64}\n`, "is not a configuration"],
  ])("that csimux cannot read are errors: %s", (_what, body, message) => {
    for (const name of ["s.yaml", "-"]) {
      const [only, ...more] = gist(secret(body), name);
      expect(only).toMatch(/^5:3 secret-entry "a(?:\.yaml|\.json)?" /);
      expect(only).toContain(message);
      expect(more).toEqual([]);
    }
    expect(JSON.stringify(check({ "s.yaml": secret(body) }))).not.toContain(base64);
  });

  test("are not expected in other Secrets and empty documents of a rendered chart", () => {
    const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n";
    expect(gist(`---\n# nothing\n---\n${role}---\n${secret("stringData:\n  values.yaml: 'a: 1'\n")}---\n`)).toEqual([]);
  });

  test("are distinguished from files of other programs with a driver", () => {
    const files = {
      "a.yaml": right,
      "s.yaml": secret(`stringData:\n  db: "driver: mysql"\n  b.json: '{"driver":"x"}'\n`),
    };
    expect(check(files).map(({ rule }) => rule)).toEqual(["nothing-to-check"]);
  });

  test("have their secrets hidden, also where they are mistyped", () => {
    const inner =
      "driver: freenas-api-nfs\nhttpConnection: { host: a, pasword: hunter2, apiKey: hunter3, port: x }\nzfs: { datasetParentName: a/b }\nnfs: { shareHost: a }\n";
    for (const body of [
      `stringData:\n  a.yaml: |\n${indented(inner, 4)}`,
      `data:\n  a.yaml: ${Buffer.from(inner).toString("base64")}\n`,
    ]) {
      const problems = check({ "s.yaml": secret(body) });
      expect(problems.length).toBeGreaterThan(1);
      expect(JSON.stringify(problems)).not.toMatch(/hunter/);
      expect(problems.find(({ rule }) => rule === "wrong-type")?.excerpt?.line.trim()).toBe("httpConnection: ***");
    }
  });
});

describe("connections in other objects", () => {
  const right = wrong.replace("relative", "/a");
  const storageClass = (connection: string): string =>
    `apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: a }\nprovisioner: a.example\nparameters: { connection: ${connection} }\n`;

  test("are read from a ConfigMap as from a Secret", () => {
    const map = (text: string): string =>
      `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata:\n  a.yaml: |\n${indented(text, 4)}\n`;
    expect(gist(map(wrong))).toEqual(["9:22 invalid-value a.yaml: must be an absolute path"]);
    expect(check({ "map.yaml": map(right), "class.yaml": storageClass("a") })).toEqual([]);
  });

  test("are known by name from a SealedSecret", () => {
    const sealed =
      "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: { name: x }\nspec:\n  encryptedData:\n    nas.yaml: AgB\n";
    const files = { "sealed.yaml": sealed, "b.yaml": right };
    expect(check({ "sealed.yaml": sealed })).toEqual([]);
    expect(check({ ...files, "class.yaml": storageClass("nas") })).toEqual([]);
    expect(check({ ...files, "class.yaml": storageClass("nsa") })[0]?.fix).toBe('did you mean "nas"?');
  });

  test("are not found in a ConfigMap of others", () => {
    const other = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata:\n  app.yaml: 'driver: x'\n  b: c\n";
    expect(gist(other.replace("driver: x", "a: b"))).toEqual([expect.stringContaining("nothing-to-check")]);
  });
});

describe("values of the chart", () => {
  const inner = "csiDriver:\n  name: csimux.storage\n  attachRequired: false\ndriver: { config: { driver: proxy } }\n";

  test("are found below the key of an umbrella chart, with their places", () => {
    const text = `# values\ndemocratic-csi:\n${indented(inner, 2)}`;
    expect(gist(text, "values.yaml").map(each => each.split(" ").slice(0, 2).join(" "))).toEqual([
      "2:1 helm-image",
      "2:1 helm-image",
      "6:3 helm-config",
    ]);
  });
});

describe("values of a deployment of one driver", () => {
  const values = `csiDriver: { name: org.democratic-csi.nfs, attachRequired: false }
storageClasses:
- name: nfs
  parameters: { fsType: nfs }
  secrets: { node-stage-secret: }
driver:
  config:
    driver: freenas-nfs
    instance_id:
    httpConnection: { protocol: https, host: server address, username: csi, apiKey: hunter2, port: "443" }
    sshConnection:
      host: server address
      username: root
      password: ""
      hostKeyPolicy: accept-new
      privateKey: |
        -----BEGIN RSA PRIVATE KEY-----
        ...
        -----END RSA PRIVATE KEY-----
    zfs: { datasetParentName: tank/a/vols, detachedSnapshotsDatasetParentName: tank/a/snaps }
    nfs: { shareHost: server address }
`;
  const found = check({ "values.yaml": values });

  test("pass as they are, except images, and what published examples leave to be filled in", () => {
    expect(new Set(found.map(({ rule }) => rule))).toEqual(
      new Set(["helm-image", "placeholder-value", "retyped-value", "size-not-enforced"]),
    );
    expect(found.filter(({ rule }) => rule === "placeholder-value")).toHaveLength(4);
  });

  test("are shown without their secrets", () => {
    expect(JSON.stringify(found)).not.toContain("hunter2");
  });
});

describe("a PersistentVolume", () => {
  const volume = (handle: string, attributes: string): string =>
    `apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: x }\nspec:\n  csi:\n    driver: a.example\n    volumeHandle: ${handle}\n    volumeAttributes: { ${attributes} }\n`;
  const manual = "provisioner_driver: node-manual, node_attach_driver: nfs, server: nas, share: /x";

  test("is a file of csimux, and one that people describe needs no handle of ours", () => {
    expect(gist(volume("anything", manual), "pv.yaml")).toEqual([]);
    expect(gist(volume("anything", "provisioner_driver: node-manual"), "pv.yaml")).toEqual([
      expect.stringContaining("8:5 volume-attributes"),
    ]);
  });

  test("of a deployment that was taken over may have a handle without prefix", () => {
    const main = "driver: proxy\nproxy:\n  configFolder: /c\n";
    const old = volume("pvc-1", "provisioner_driver: nfs-client");
    expect(check({ "proxy.yaml": `${main}  legacyConnection: a\n`, "pv.yaml": old })).toEqual([]);
    expect(check({ "proxy.yaml": main, "pv.yaml": old }).map(({ rule }) => rule)).toEqual(["volume-handle"]);
  });

  test("with the connection as the first part of its handle gets the right one proposed", () => {
    const files = {
      "fast.yaml": wrong.replace("relative", "/a"),
      "pv.yaml": volume("fast/pvc-1", "provisioner_driver: nfs-client"),
    };
    expect(check(files)[0]?.fix).toBe('did you mean "v:fast/pvc-1"?');
  });

  test("of another driver is not checked", () => {
    expect(gist(volume("x", "a: b"), "pv.yaml")).toEqual([]);
  });
});

describe("excerpts", () => {
  test("hide private keys of several lines, credentials in addresses, and comments", () => {
    const text =
      "driver: zfs-generic-nfs\nsshConnection:\n  host: https://user:hunter2@nas\n  port: x # hunter2\n  username: a\n  privateKey: |\n    hunter2\n    hunter2\nzfs: {}\nnfs: 1\n";
    const shown = JSON.stringify(check({ "c1.yaml": text }));
    expect(shown).toContain("port: ***");
    expect(shown).not.toContain("hunter2");
  });

  test("of a file that cannot be parsed show keys only", () => {
    const problems = check({ "c1.yaml": 'driver: nfs-client\npassword: "hunter2\nhunter2\n' });
    expect(problems.length).toBeGreaterThan(0);
    expect(JSON.stringify(problems)).not.toContain("hunter2");
  });

  const system = (more: string): string =>
    `driver: freenas-api-nfs\nhttpConnection:\n  host: a\n  username: root\n${more}zfs:\n  datasetParentName: a/b\n  detachedSnapshotsDatasetParentName: a/c\nnfs:\n  shareHost: a\n`;

  test.each([
    ["an anchor", "  password: &hunter2\n"],
    ["a tag", "  password: !hunter2\n"],
    ["a mapping", "  password: {hunter2}\n"],
    ["a key, for want of a space", "  inner: {password:hunter2}\n"],
    ["part of an address", "  port: root:hunter2@nas\n"],
  ])("hide a secret that YAML takes for %s", (_what, more) => {
    const problems = check({ "c1.yaml": system(more) });
    expect(problems.some(({ line }) => line === 5)).toBe(true);
    expect(JSON.stringify(problems)).not.toContain("hunter2");
  });

  test("and messages hide what is glued to an unknown key, and say how to part them", () => {
    const text = `${system("").replace("httpConnection:\n  host: a\n  username: root", "httpConnection: { host: a, username: root, password:hunter2 }")}`;
    const problems = check({ "c1.yaml": text });
    expect(problems.map(({ path, fix }) => `${path} ${fix ?? ""}`)).toContain(
      'httpConnection."password:***" put a space after the ":"',
    );
    expect(JSON.stringify(problems)).not.toContain("hunter2");
  });

  test("carry no control characters to a terminal", () => {
    const problems = check({
      "c1.yaml": 'driver: nfs-client\nnfs: { "\\x1b[2Jx": 1, shareHost: "\x1b[2J", "a\x1bb": 1 }\n',
    });
    for (const { excerpt, message } of problems) {
      expect(excerpt?.line ?? "").not.toContain("\x1b");
      expect(message).not.toContain("\x1b");
    }
  });
});
