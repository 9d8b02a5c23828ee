import { type Examples, main, nfs, smb } from "./files.ts";

/** Examples of the rules in lib/lint/rules/groups.ts. */
export const groups: Examples = {
  "legacy-connection-missing": {
    bad: { "proxy.yaml": main("  legacyConnection: old\n"), "c1.yaml": nfs() },
    good: { "proxy.yaml": main("  legacyConnection: c1\n"), "c1.yaml": nfs() },
  },
  "group-member-missing": {
    bad: { "proxy.yaml": main("  groups: { all: { members: [c1, c3] } }\n"), "c1.yaml": nfs() },
    good: { "proxy.yaml": main("  groups: { all: { members: [c1] } }\n"), "c1.yaml": nfs() },
  },
  "group-name-taken": {
    bad: { "proxy.yaml": main("  groups: { c1: { members: [c1] } }\n"), "c1.yaml": nfs() },
    good: { "proxy.yaml": main("  groups: { all: { members: [c1] } }\n"), "c1.yaml": nfs() },
  },
  "group-empty": {
    bad: { "proxy.yaml": main("  groups: { fast: { selector: tier=fast } }\n"), "c1.yaml": nfs() },
    good: {
      "proxy.yaml": main("  groups: { fast: { selector: tier=fast } }\n"),
      "c1.yaml": nfs("proxy: { perDriver: { labels: { tier: fast } } }\n"),
    },
  },
  "group-mixed": {
    bad: { "proxy.yaml": main("  groups: { all: { members: [c1, c2] } }\n"), "c1.yaml": nfs(), "c2.yaml": smb },
    good: { "proxy.yaml": main("  groups: { all: { members: [c1] } }\n"), "c1.yaml": nfs(), "c2.yaml": smb },
  },
};
