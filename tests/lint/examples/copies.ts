import { type Examples, main, nfs, smb } from "./files.ts";

/** Examples of the rules in lib/lint/rules/copies.ts. */
export const copies: Examples = {
  "copy-connection-missing": {
    bad: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { from: { members: [c3] } }\n"), "c2.yaml": smb },
    good: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { from: { members: [c2] } }\n"), "c2.yaml": smb },
  },
  "copy-selector-empty": {
    bad: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { to: { selector: tier=fast } }\n") },
    good: {
      "proxy.yaml": main(""),
      "c1.yaml": nfs("proxy: { perDriver: { labels: { tier: fast } } }\n"),
      "c2.yaml": `${smb}copies: { to: { selector: tier=fast } }\n`,
    },
  },
};
