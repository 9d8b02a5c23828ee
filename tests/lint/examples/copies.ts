import { type Examples, main, nfs, smb, truenas } from "./files.ts";

const api = "  protocol: https\n  host: nas.example.org\n  port: 443\n  username: csi\n  apiKey: 1-abc\n";

const login = `copies:
  sshConnection:
    host: nas.example.org
    username: root
    password: secret
    knownHosts: /etc/csimux/known_hosts
`;

/** Examples of the rules in lib/lint/rules/copies.ts. */
export const copies: Examples = {
  "copy-connection-missing": {
    bad: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { from: { members: [c3] } }\n"), "c2.yaml": smb },
    good: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { from: { members: [c2] } }\n"), "c2.yaml": smb },
  },
  "copy-method-missing": {
    bad: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { to: { members: [c2] } }\n"), "c2.yaml": truenas(api) },
    good: { "proxy.yaml": main(""), "c1.yaml": nfs("copies: { to: { members: [c2] } }\n"), "c2.yaml": smb },
  },
  "copy-login-unused": {
    bad: { "proxy.yaml": main(""), "c1.yaml": nfs(login) },
    good: { "proxy.yaml": main(""), "c1.yaml": `${truenas(api)}${login}` },
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
