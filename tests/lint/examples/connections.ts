import { type Examples, hostpath, main, nfs, truenas } from "./files.ts";

/** Examples of the rules in lib/lint/rules/connections.ts. */
export const connections: Examples = {
  "duplicate-connection": {
    bad: { "c1.yaml": nfs(), "c1.yml": nfs("", "other.example.org") },
    good: { "c1.yaml": nfs(), "c2.yaml": nfs("", "other.example.org") },
  },
  "duplicate-instance-id": {
    bad: { "c1.yaml": nfs("instance_id: a\n"), "c2.yaml": nfs("instance_id: a\n", "other.example.org") },
    good: { "c1.yaml": nfs("instance_id: a\n"), "c2.yaml": nfs("instance_id: b\n", "other.example.org") },
  },
  "snapshot-method-without-settings": {
    bad: { "c1.yaml": nfs("  snapshots: { default_driver: restic }\n") },
    good: { "c1.yaml": nfs("  snapshots: { default_driver: filecopy }\n") },
  },
  "node-block-in-connection": {
    bad: { "c1.yaml": nfs("node: { format: { ext4: { customOptions: [-m0] } } }\n") },
    good: {
      "c1.yaml": nfs("node: { mount: { mount_flags: noatime } }\n"),
      "proxy.yaml": `${main()}node: { format: { ext4: { customOptions: [-m0] } } }\n`,
    },
  },
  "mixed-deployment": {
    bad: { "c1.yaml": nfs(), "c2.yaml": hostpath },
    good: { "c1.yaml": nfs() },
  },
  "newer-truenas": {
    bad: { "nas.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n") },
    good: {
      "nas.yaml": truenas(
        "  protocol: https\n  host: nas.example.org\n  port: 443\n  username: csi\n  apiKey: 1-abc\n",
      ),
    },
  },
};
