import {
  attacher,
  controller,
  csiDriver,
  disk,
  type Examples,
  generating,
  main,
  mounting,
  nfs,
  provisioner,
  secret,
} from "./files.ts";

/** Examples of the rules in lib/lint/rules/manifests.ts. */
export const manifests: Examples = {
  "attach-required": {
    bad: { "c1.yaml": disk, "driver.yaml": csiDriver("{ attachRequired: false }") },
    good: { "c1.yaml": disk, "driver.yaml": csiDriver("{ attachRequired: true }") },
  },
  "attacher-missing": {
    bad: { "c1.yaml": disk, "driver.yaml": `${csiDriver("{ attachRequired: true }")}---\n${controller("")}` },
    good: { "c1.yaml": disk, "driver.yaml": `${csiDriver("{ attachRequired: true }")}---\n${controller(attacher)}` },
  },
  "capacity-tracking": {
    bad: {
      "c1.yaml": nfs(),
      "driver.yaml": `${csiDriver("{ attachRequired: true, storageCapacity: true }")}---\n${controller(attacher + provisioner(""))}`,
    },
    good: {
      "c1.yaml": nfs(),
      "driver.yaml": `${csiDriver("{ attachRequired: true, storageCapacity: true }")}---\n${controller(attacher + provisioner("--enable-capacity=true"))}`,
    },
  },
  "workload-secret": {
    bad: {
      "proxy.yaml": main(),
      "secret.yaml": secret("stringData:\n  c1.yaml: |\n"),
      "pod.yaml": mounting("conections"),
    },
    good: {
      "proxy.yaml": main(),
      "secret.yaml": secret("stringData:\n  c1.yaml: |\n"),
      "pod.yaml": mounting("connections"),
    },
  },
  "kustomize-file-missing": {
    bad: { "c1.yaml": nfs(), "c2.yaml": nfs("", "other.example.org"), "kustomization.yaml": generating("c1.yaml") },
    good: {
      "c1.yaml": nfs(),
      "c2.yaml": nfs("", "other.example.org"),
      "kustomization.yaml": generating("c1.yaml, c2.yaml"),
    },
  },
};
