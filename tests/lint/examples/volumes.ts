import { type Examples, nfs, plain, volume } from "./files.ts";

/** Examples of the rules in lib/lint/rules/volumes.ts. */
export const volumes: Examples = {
  "volume-handle": {
    bad: { "c1.yaml": nfs(), "class.yaml": plain, "pv.yaml": volume("c1/pvc-1") },
    good: { "c1.yaml": nfs(), "class.yaml": plain, "pv.yaml": volume("v:c1/pvc-1") },
  },
  "volume-attributes": {
    bad: { "class.yaml": plain, "pv.yaml": volume("share-1", "node-manual") },
    good: { "class.yaml": plain, "pv.yaml": volume("share-1", "node-manual", "      node_attach_driver: nfs\n") },
  },
};
