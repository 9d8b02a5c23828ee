import { type Examples, login, nfs, plain, smb, snapshotClass, storageClass, withClass } from "./files.ts";

/** Examples of the rules in lib/lint/rules/class-parameters.ts. */
export const classParameters: Examples = {
  "parameter-value": {
    ...withClass(
      snapshotClass("  connection: c1\n  driver: filecpy\n"),
      snapshotClass("  connection: c1\n  driver: filecopy\n"),
    ),
  },
  "parameter-without-effect": {
    bad: { "c1.yaml": "driver: node-manual\n", "class.yaml": snapshotClass("  connection: c1\n  driver: filecopy\n") },
    good: { "c1.yaml": nfs(), "class.yaml": snapshotClass("  connection: c1\n  driver: filecopy\n") },
  },
  "unknown-parameter": {
    ...withClass(storageClass("  connection: c1\n  fsTyp: nfs\n"), storageClass("  connection: c1\n  fsType: nfs\n")),
  },
  "parameter-pair": {
    bad: { "c1.yaml": smb, "class.yaml": storageClass(`  connection: c1\n${login.split("\n")[0]}\n`) },
    good: { "c1.yaml": smb, "class.yaml": storageClass(`  connection: c1\n${login}`) },
  },
  "fstype-given-twice": {
    ...withClass(
      storageClass("  connection: c1\n  fsType: nfs\n  csi.storage.k8s.io/fstype: nfs\n"),
      storageClass("  connection: c1\n  fsType: nfs\n"),
    ),
  },
  "fstype-impossible": {
    ...withClass(storageClass("  connection: c1\n  fsType: ext4\n"), storageClass("  connection: c1\n  fsType: nfs\n")),
  },
  "class-without-login": {
    bad: { "c1.yaml": smb, "class.yaml": plain },
    good: { "c1.yaml": smb, "class.yaml": storageClass(`  connection: c1\n${login}`) },
  },
};
