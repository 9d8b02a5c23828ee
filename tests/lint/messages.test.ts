import { describe, expect, test } from "bun:test";
import { connections } from "./cases/connections.ts";
import { check, seen } from "./checking.ts";
import type { Example } from "./examples/files.ts";

const connection = (driver: string): string => connections[driver] ?? "";
const nfs = connection("nfs-client");
const main = (more: string): string => `driver: proxy\nproxy:\n  configFolder: /connections\n${more}`;
const rules = (rule: string): string =>
  main(`  nodeTopology:\n    type: zone\n    fromRegexp:\n      - ${rule.split("\n").join("\n        ")}\n`);
const storageClass = (parameters: string, more = ""): string =>
  `apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: fast }\nprovisioner: a.example\nparameters:\n${parameters}${more}`;

/** `line message; fix` of every problem but that a driver is still to come. */
const said = (files: Example): readonly string[] =>
  check(files).map(({ line, message, fix }) => `${line} ${message}; ${fix ?? ""}`);

const edited = (driver: string, from: string, to: string): Example => {
  const text = connection(driver);
  if (!text.includes(from)) throw new Error(`${driver} does not hold ${from}`);
  return { [`${driver}.yaml`]: text.replace(from, () => to) };
};

describe("values that no storage system could use are reported, with a correction", () => {
  const shareHost = (host: string) => edited("nfs-client", "shareHost: nas.example.org", `shareHost: ${host}`);
  const hostKey = (key: string) =>
    edited("zfs-generic-nfs", /hostKey: .*/.exec(connection("zfs-generic-nfs"))?.[0] ?? "?", `hostKey: ${key}`);
  const privateKey = (body: string) =>
    edited(
      "freenas-nfs",
      "  password: correct horse\n",
      `  privateKey: |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n${body}    -----END OPENSSH PRIVATE KEY-----\n`,
    );

  test.each<[string, Example, string]>([
    ["a scheme", shareHost("nfs://nas1"), 'remove "nfs://"'],
    ["a path behind the host", shareHost("nas1:/export"), "the path has its own key"],
    ["a space before the host", shareHost('" nas1"'), "must not contain spaces"],
    ["a path that climbs", edited("nfs-client", "/export/k8s", "/export/../k8s"), 'must not contain ".."'],
    [
      "a scheme before management nodes",
      edited("lustre-client", "shareHost: ", "shareHost: tcp://"),
      "management nodes alone",
    ],
    ["words for a host key", hostKey("hello world"), "not a fingerprint"],
    [
      "a fingerprint for a host key",
      hostKey("SHA256:abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"),
      "not a fingerprint",
    ],
    [
      "base64 without its type",
      hostKey("AAAAC3NzaC1lZDI1NTE5AAAAIJqfzv2hQH0KfTzJrJYgXcXhH0kqPcF0mKpGv5dYXQ1R"),
      "with its type",
    ],
    ["nothing for a host key", hostKey(""), '"hostKey" is empty, so the first host key shown by the server is trusted'],
    [
      "an empty text for a host key",
      hostKey('""'),
      '"hostKey" is empty, so the first host key shown by the server is trusted',
    ],
    ["a private key without a body", privateKey(""), "is cut short"],
    ["a private key with words for a body", privateKey("    here comes the key\n"), "is cut short"],
    [
      "a placeholder of our own",
      edited("freenas-api-nfs", "1-abcdef", "1-put-the-key-here"),
      "placeholder for a secret from the examples",
    ],
    [
      "a selector without value",
      { "proxy.yaml": main("  groups: { a: { selector: 'tier=' } }\n") },
      'has no value for "tier"',
    ],
  ])("%s", (_what, files, words) => {
    const found = said(files).filter(each => each.includes(words));
    expect({ found: found.length, said: found.length === 1 ? [] : said(files) }).toEqual({ found: 1, said: [] });
  });

  test("valid values of the same keys pass", () => {
    for (const host of ["10.0.0.1", "nas_1", '"fe80::1%eth0"', "'[2001:db8::1]'", "nas.example.org."])
      expect(said(shareHost(host))).toEqual([]);
    for (const key of [
      "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 root@nas",
      "'[nas]:2222 ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHA='",
    ])
      expect(said(hostKey(key))).toEqual([]);
    expect(
      said(privateKey("    b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n    QyNTUxOQ==\n")),
    ).toEqual([]);
    expect(said(edited("lustre-client", "shareHost: ", "shareHost: 10.0.0.1@tcp:10.0.0.2@tcp #"))).toEqual([]);
  });
});

describe("messages say how to repair the mistake", () => {
  test.each<[string, Example, string]>([
    [
      "a source without its key",
      { "proxy.yaml": rules("topologyKey: zone\nsource: nodeLabel") },
      '7 source "nodeLabel" needs "label"; add "label: topology.kubernetes.io/zone"',
    ],
    [
      "a variable without its name",
      { "proxy.yaml": rules("topologyKey: zone\nsource: env") },
      '7 source "env" needs "envName"; add "envName: NODE_ZONE"',
    ],
    ["driver: nfs", edited("nfs-client", "nfs-client", "nfs"), '1 unknown driver "nfs"; did you mean "nfs-client"?'],
    ["driver: proxi", edited("nfs-client", "nfs-client", "proxi"), 'did you mean "proxy"?'],
    [
      "the section of another driver",
      edited("freenas-api-nfs", "nfs:\n", "iscsi:\n"),
      "freenas-api-iscsi has such a section",
    ],
    [
      "a class that names a file",
      { "nas.yaml": nfs, "class.yaml": storageClass("  connection: nas.yaml\n") },
      'did you mean "nas"?',
    ],
    [
      "several values of one place",
      edited(
        "nfs-client",
        "nfs:\n",
        "proxy: { perDriver: { topology: [{ requirements: { zone: [b, c] } }] } }\nnfs:\n",
      ),
      "for several, write one entry of topology for each",
    ],
    [
      "an empty value",
      edited("nfs-client", " nas.example.org", ""),
      '3 required key "shareHost" is empty; write a value after it',
    ],
    [
      "members and selector",
      { "proxy.yaml": main("  groups: { a: { members: [b], selector: c=d } }\n") },
      "remove one of them",
    ],
  ])("%s", (_what, files, words) => {
    expect(said(files).filter(each => each.includes(words))).toHaveLength(1);
  });

  test("a misspelt selector is reported with the existing labels", () => {
    const files = {
      "proxy.yaml": main("  groups: { a: { selector: teir=fast } }\n"),
      "c1.yaml": `${nfs}proxy: { perDriver: { labels: { tier: fast } } }\n`,
    };
    expect(said(files)).toEqual(["4 no connection has such labels; there are: tier=fast"]);
  });

  test("a topology of another spelling is reported with both", () => {
    const place = "proxy: { perDriver: { topology: [{ requirements: { zone: A } }] } }\n";
    const allowed =
      "allowedTopologies:\n  - matchLabelExpressions: [{ key: org.democratic-csi.topology/zone, values: [a] }]\n";
    const files = {
      "proxy.yaml": rules("topologyKey: zone\nsource: nodeName"),
      "nas-a.yaml": nfs + place,
      "class.yaml": storageClass("  connection: nas-a\n", allowed),
    };
    expect(said(files)).toEqual([
      '7 no allowed topology reaches "nas-a": the class allows zone=a, the connection requires zone=A; allow a topology of the connection',
    ]);
  });

  test("a local driver next to others gets one piece of advice", () => {
    const files = { "proxy.yaml": main(""), "c1.yaml": nfs, "c2.yaml": connection("zfs-local-dataset") };
    expect(said(files)).toEqual([expect.stringContaining("deploy csimux twice, under two names")]);
  });
});

describe("mistakes in the syntax are reported where they are", () => {
  const lineOf = (text: string): number => nfs.slice(0, nfs.indexOf(text)).split("\n").length;
  const keys = ["  shareHost", "  shareBasePath", "  controllerBasePath", "  dirPermissionsMode"] as const;

  test.each(keys.flatMap(key => ["", " ", "   ", "    "].map(indent => [key, indent] as const)))(
    "%j with %j before it, in this line or a neighbour",
    (key, indent) => {
      const [first] = check({ "c1.yaml": nfs.replace(key, indent + key.trim()) });
      expect(first?.rule).toBe("yaml-syntax");
      expect(Math.abs((first?.line ?? 0) - lineOf(key))).toBeLessThanOrEqual(1);
      expect(`${first?.message}; ${first?.fix}`).toContain("indent");
    },
  );

  test.each([
    ["a no-break space in the indentation", "  shareBasePath", "\u00a0\u00a0shareBasePath", "no-break space", 1],
    ["a no-break space after the colon", "shareBasePath: ", "shareBasePath:\u00a0", "no-break space", 17],
    ["a no-break space behind the indentation", "  shareBasePath", "  \u00a0shareBasePath", "no-break space", 3],
    ["a bracket that is never closed", "/export/k8s", "[/export/k8s", "the bracket that opens here is not closed", 18],
    [
      "a brace that is never closed",
      "/export/k8s",
      "{ a: /export/k8s",
      "the bracket that opens here is not closed",
      18,
    ],
    ["a tab", "  shareBasePath", "\tshareBasePath", "a tab is used", 1],
    ["a quote that is never closed", "/export/k8s", "'/export/k8s", "no closing quote", 18],
  ])("%s", (_what, from, to, message, column) => {
    const found = check({ "c1.yaml": nfs.replace(from, to) }).filter(({ rule }) => rule !== "missing-key");
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({
      line: lineOf("shareBasePath"),
      column,
      message: expect.stringContaining(message),
    });
  });

  test("a bracket in the first line is reported there, not in the second", () => {
    const [first] = check({ "c1.yaml": "driver: [nfs-client\nnfs:\n  shareHost: a\n" });
    expect(first).toMatchObject({ line: 1, column: 9 });
  });
});

describe("the excerpt of a line", () => {
  test("is a key without its value, which may be a secret", () => {
    expect(seen(check(edited("nfs-client", "shareHost", "shareHsot")))).toContain(
      "    |   shareHsot: ***\n    |   ^\n",
    );
    for (const typo of ["pasword", "passwrod", "Password", "passw"])
      expect(seen(check(edited("freenas-nfs", "  password", `  ${typo}`)))).not.toContain("correct horse");
  });

  test("is a tab as an arrow", () => {
    expect(seen(check(edited("nfs-client", "  shareHost", "\tshareHost")))).toContain("    | →shareHost: ***");
  });
});
