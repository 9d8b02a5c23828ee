import { type Examples, hostKey, nfs, zfs } from "./files.ts";

/** Examples of the rules in lib/lint/rules/storage.ts. */
export const storage: Examples = {
  "shared-storage": {
    bad: { "c1.yaml": nfs(), "c2.yaml": nfs("", "NAS.example.org.") },
    good: { "c1.yaml": nfs(), "c2.yaml": nfs("", "nas.example.org", "/export/more") },
  },
  "size-not-enforced": {
    bad: { "c1.yaml": zfs(hostKey).replace("  datasetEnableQuotas: true\n", "") },
    good: { "c1.yaml": zfs(hostKey).replace("datasetEnableQuotas: true", "datasetEnableQuotas: false") },
  },
};
