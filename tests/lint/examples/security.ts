import { type Examples, hostKey, lio, truenas, zfs } from "./files.ts";

/** Examples of the rules in lib/lint/rules/security.ts. */
export const security: Examples = {
  "credentials-over-http": {
    bad: {
      "c1.yaml": truenas("  protocol: http\n  host: nas.example.org\n  port: 80\n  username: csi\n  password: abc\n"),
    },
    good: {
      "c1.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  username: csi\n  apiKey: 1-abc\n"),
    },
  },
  "certificate-unchecked": {
    bad: {
      "c1.yaml": truenas(
        "  protocol: https\n  host: nas.example.org\n  port: 443\n  username: csi\n  apiKey: 1-abc\n  allowInsecure: true\n",
      ),
    },
    good: {
      "c1.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  username: csi\n  apiKey: 1-abc\n"),
    },
  },
  "host-key-unchecked": {
    bad: { "c1.yaml": zfs("") },
    good: {
      "c1.yaml": zfs(hostKey),
    },
  },
  "export-to-everybody": {
    bad: { "c1.yaml": zfs(hostKey).replace('"on"', "'rw,no_root_squash'") },
    good: { "c1.yaml": zfs(hostKey).replace('"on"', "'rw=@10.0.0.0/24,no_root_squash'") },
  },
  "chap-not-asked-for": {
    bad: { "c1.yaml": lio(0) },
    good: { "c1.yaml": lio(1) },
  },
};
