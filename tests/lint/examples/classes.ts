import {
  allowed,
  delayed,
  type Examples,
  hostpath,
  inZone,
  main,
  nfs,
  plain,
  storageClass,
  values,
  withClass,
  zoneKey,
  zones,
} from "./files.ts";

/** Examples of the rules in lib/lint/rules/classes.ts. */
export const classes: Examples = {
  "class-driver": {
    bad: { "values.yaml": values(""), "class.yaml": plain.replace("csimux.storage", "org.example.other") },
    good: { "values.yaml": values(""), "class.yaml": plain },
  },
  "class-without-connection": {
    bad: { "c1.yaml": nfs(), "class.yaml": `${plain}---\n${storageClass("  fsType: nfs\n")}` },
    good: { "c1.yaml": nfs(), "class.yaml": plain },
  },
  "class-connection-missing": {
    ...withClass(storageClass("  connection: c2\n"), plain),
  },
  "class-binding": {
    bad: { "proxy.yaml": main("  nodeTopology: { type: node }\n"), "c1.yaml": hostpath, "class.yaml": plain },
    good: {
      "proxy.yaml": main("  nodeTopology: { type: node }\n"),
      "c1.yaml": hostpath,
      "class.yaml": storageClass("  connection: c1\n", delayed),
    },
  },
  "class-expansion": {
    bad: {
      "c1.yaml": "driver: node-manual\n",
      "class.yaml": storageClass("  connection: c1\n", "allowVolumeExpansion: true\n"),
    },
    good: { "c1.yaml": nfs(), "class.yaml": storageClass("  connection: c1\n", "allowVolumeExpansion: true\n") },
  },
  "class-suspended": {
    bad: { "c1.yaml": nfs("suspended: true\n"), "class.yaml": plain },
    good: { "c1.yaml": nfs(), "class.yaml": plain },
  },
  "class-topology": {
    bad: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1"), "class.yaml": allowed(zoneKey, "z2") },
    good: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1"), "class.yaml": allowed(zoneKey, "z1") },
  },
};
