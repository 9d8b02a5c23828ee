import { c1, type Examples, hostpath, main, nfs, secret } from "./files.ts";

/** Examples of the rules in lib/lint/rules/reading.ts. */
export const reading: Examples = {
  "yaml-syntax": {
    ...c1("driver: nfs-client\nnfs:\n\tshareHost: nas.example.org\n", nfs()),
  },
  "wrong-encoding": {
    ...c1(nfs("", "nas.example.org # B\uFFFDro"), nfs("", "nas.example.org # Büro")),
  },
  "ignored-key": {
    ...c1(nfs("proxy: { configFolder: /connections }\n"), nfs()),
  },
  "file-not-read": {
    bad: { "c1.YAML": nfs() },
    good: { "c1.yaml": nfs() },
  },
  "secret-entry": {
    bad: { "secret.yaml": secret("data:\n  c1.yaml: |\n") },
    good: { "secret.yaml": secret("stringData:\n  c1.yaml: |\n") },
  },
  "nothing-to-check": {
    bad: { "c1.yaml": "colour: red\n" },
    good: { "c1.yaml": nfs() },
  },
  "too-many-problems": {
    ...c1(nfs(Array.from({ length: 201 }, (_, index) => `  key${index}: 1\n`).join("")), nfs()),
  },
  "several-main-files": {
    bad: { "a.yaml": main(), "b.yaml": main() },
    good: { "a.yaml": main() },
  },
  "yaml-alias": {
    ...c1(
      nfs().replace("/storage", "*folder"),
      nfs().replace("/export/k8s", "&folder /export/k8s").replace("/storage", "*folder"),
    ),
  },
  "yaml-tag": {
    ...c1(nfs("", "!nas nas.example.org"), nfs()),
  },
  "yaml-too-large": {
    ...c1(`${nfs()}#${" ".repeat(4 << 20)}`, nfs()),
  },
  "yaml-too-deep": {
    ...c1(`${nfs()}x: ${"[".repeat(300)}${"]".repeat(300)}\n`, nfs()),
  },
  "duplicate-key": {
    ...c1(nfs("  shareHost: other.example.org\n"), nfs()),
  },
  "empty-file": {
    bad: { "proxy.yaml": "# nothing yet\n" },
    good: { "proxy.yaml": main() },
  },
  "unknown-key": {
    ...c1(nfs("  dirPermissionsMod: '0777'\n"), nfs("  dirPermissionsMode: '0777'\n")),
  },
  "missing-key": {
    ...c1(nfs().replace("  shareHost: nas.example.org\n", ""), nfs()),
  },
  "wrong-type": {
    ...c1(nfs("", "[nas.example.org]"), nfs()),
  },
  "invalid-value": {
    ...c1(nfs("  dirPermissionsMode: '0888'\n"), nfs("  dirPermissionsMode: '0770'\n")),
  },
  "retyped-value": {
    ...c1(nfs("  requireMount: 'true'\n"), nfs("  requireMount: true\n")),
  },
  "renamed-key": {
    ...c1(nfs("  dirPermissionMode: '0777'\n"), nfs("  dirPermissionsMode: '0777'\n")),
  },
  "key-given-twice": {
    ...c1(nfs("  dirPermissionMode: '0700'\n  dirPermissionsMode: '0777'\n"), nfs("  dirPermissionsMode: '0777'\n")),
  },
  "unset-variable": {
    ...c1(nfs("", "${env:CSIMUX_EXAMPLE_UNSET}"), nfs("", "${env:PATH_THAT_IS_SET}")),
  },
  "unreadable-file": {
    ...c1(nfs("  snapshots: { kopia: { config_tokenFile: /no/such/file } }\n"), nfs()),
  },
  "unexpanded-variable": {
    ...c1(nfs("", "${NAS}"), nfs("", "${env:NAS}")),
  },
  "placeholder-value": {
    ...c1(nfs("", "server address"), nfs()),
  },
  "unknown-driver": {
    ...c1(nfs().replace("nfs-client", "nfs-clint"), nfs()),
  },
  "bad-connection-name": {
    bad: { "my nas.yaml": nfs() },
    good: { "my-nas.yaml": nfs() },
  },
  "not-proxy": {
    bad: { "proxy.yaml": "driver: nfs-client\nproxy: { configFolder: /connections }\n" },
    good: { "proxy.yaml": main() },
  },
  "connection-check": {
    ...c1(hostpath.replaceAll("/data", "/no/such/folder"), hostpath.replaceAll("/data", "/tmp")),
  },
  "unused-suppression": {
    ...c1(`${nfs()}# csimux-ignore unknown-key\n`, nfs("  colour: red # csimux-ignore unknown-key\n")),
  },
};
