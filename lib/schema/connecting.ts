import * as v from "valibot";
import {
  type About,
  checked,
  consistent,
  described,
  filled,
  flag,
  holdsPlaceholder,
  host,
  isPlaceholder,
  list,
  oneOf,
  optional,
  port,
  portal,
  record,
  text,
  whole,
} from "./parts.ts";

/** Settings for access to storage systems: from nodes, over HTTP, over SSH. */

const transportShape =
  /^(?:(?:tcp|rdma):\/\/(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?(?:\?[^\s]*)?|fc:\/\/\[?nn-0x[0-9A-Fa-f]+:pn-0x[0-9A-Fa-f]+\]?(?:\?[^\s]*)?)$/;

/** An NVMe over fabrics address: tcp://, rdma:// or fc://. */
const transport = (about: About): v.GenericSchema<unknown, string> =>
  checked(about, [
    value => value === "" || isPlaceholder(value) || transportShape.test(value),
    "must look like tcp://host:4420, rdma://host:4420 or fc://[nn-0x...:pn-0x...]",
  ]);

/** Portals of iSCSI targets. */
export const portals = {
  targetPortal: optional(
    portal({
      description: "portal of the targets, as seen from nodes: host or host:port; the default port is 3260",
      example: "nas.example.org:3260",
    }),
    "",
  ),
  targetPortals: optional(
    list(portal({ description: "host or host:port" }), {
      description: "further portals of the same targets, for multipath",
      example: ["10.0.0.5:3260", "10.0.1.5:3260"],
    }),
    [],
  ),
  interface: optional(text({ description: "the iscsiadm interface that nodes use; empty for the default" }), ""),
};

/** Requires a portal. */
export function* somePortal(value: {
  readonly targetPortal: string;
  readonly targetPortals: readonly string[];
}): Generator<readonly [readonly (string | number)[], string]> {
  if (value.targetPortal !== "" || value.targetPortals.some(each => each !== "")) return;
  yield [["targetPortal"], 'nodes need a portal: give "targetPortal" or "targetPortals"'];
}

/** Requires user and password together, and the one-way pair for mutual CHAP. `keys` are the names in the block. */
export function* chapPairs<K extends string>(
  value: { readonly [key in K]?: string | undefined },
  keys: { readonly user: K; readonly password: K; readonly mutualUser: K; readonly mutualPassword: K },
): Generator<readonly [readonly (string | number)[], string]> {
  const { user, password, mutualUser, mutualPassword } = keys;
  for (const [name, word] of [
    [user, password],
    [mutualUser, mutualPassword],
  ] as const) {
    if (value[name] && !value[word]) yield [[word], `"${name}" is given without "${word}": CHAP needs both`];
    if (value[word] && !value[name]) yield [[name], `"${word}" is given without "${name}": CHAP needs both`];
  }
  if (value[mutualUser] && !value[user]) yield [[user], `mutual CHAP needs "${user}" and "${password}" too`];
}

/** Addresses of NVMe subsystems. */
export const transports = {
  transport: optional(
    transport({ description: "address of the subsystems, as seen from nodes", example: "tcp://nas.example.org:4420" }),
    "",
  ),
  transports: optional(
    list(transport({ description: "one address" }), {
      description: "addresses of the same subsystems, for multipath",
      example: ["tcp://10.0.0.5:4420?host-iface=eth0", "tcp://[2001:db8::5]:4420"],
    }),
    [],
  ),
};

/** Requires a transport. */
export function* someTransport(value: {
  readonly transport: string;
  readonly transports: readonly string[];
}): Generator<readonly [readonly (string | number)[], string]> {
  if (value.transport !== "" || value.transports.some(each => each !== "")) return;
  yield [["transports"], 'nodes need an address: give "transports" or "transport"'];
}

/** The address of a management interface over HTTP, and how to authenticate it. */
export const httpAddress = {
  protocol: optional(
    oneOf(["http", "https"], {
      description: "https, or http on a trusted network: credentials are sent over it",
      absent: "https if the port contains 443, else http",
    }),
  ),
  host: host({ description: "name or address of the system", example: "nas.example.org" }),
  port: optional(port({ description: "TCP port", absent: "the protocol's own", example: 443 })),
  allowInsecure: optional(
    flag({ description: "accept any certificate: a man in the middle can read the credentials" }),
    false,
  ),
  ca: optional(
    checked(
      {
        description: "the trusted certificate authority, or the server's own certificate, as PEM text",
        absent: "the authorities trusted by this host",
        secret: true,
      },
      [
        value => value === "" || /-----BEGIN CERTIFICATE-----/.test(value),
        "must be the text of a certificate in PEM form, starting with -----BEGIN CERTIFICATE-----",
      ],
    ),
  ),
  fingerprint: optional(
    checked(
      {
        description:
          "SHA-256 fingerprint of the only accepted certificate, as printed by `openssl x509 -noout -fingerprint -sha256`",
        absent: "not pinned",
        example: `${"9A:3F:".repeat(15)}9A:3F`,
      },
      [
        value => value === "" || /^[0-9A-Fa-f]{64}$/.test(value.replaceAll(":", "")),
        "must be a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons",
      ],
    ),
  ),
};

/** One line of known_hosts(5) or of ssh-keyscan(1), with or without the host in front of it. */
const hostKeyShape = /^(?:[^\s#]+\s+)?(?:ssh|ecdsa|sk)-[a-z0-9@.-]+\s+AAAA[A-Za-z0-9+/]{20,}={0,3}(?:\s.*)?$/;

/** Base64 between two lines of dashes; PEM may have headers and blank lines before it (RFC 1421). */
const hasKeyBody = (value: string): boolean => {
  const body = /-----BEGIN [^-]*-----([\s\S]*?)(?:-----END|$)/.exec(value)?.[1] ?? "";
  return /^[A-Za-z0-9+/]{16,}={0,2}\s*$/m.test(body) && value.includes("-----END");
};

const milliseconds = (description: string, fallback: number) => optional(whole({ description, unit: "ms" }), fallback);

const foreign = "it is a setting of another SSH library; csimux uses the OpenSSH client";
const foreignKeys = [
  ...["agentForward", "tryKeyboard", "authHandler", "localHostname", "localUsername", "hostHash", "hostVerifier"],
  "strictVendor",
];

/** `sshConnection`: access to a storage host over SSH. */
export const sshConnection = consistent(
  record(
    {
      host: host({ description: "name or address of the storage host", example: "nas.example.org" }),
      port: optional(port({ description: "TCP port of sshd" }), 22),
      username: filled({ description: "account that may run zfs and the tools of the share", example: "root" }),
      password: optional(text({ description: "password of the account; a key is better", secret: true })),
      privateKey: optional(
        checked(
          { description: "text of the account's private key", secret: true },
          [
            value => value === "" || /^\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(value),
            "must be the text of a private key in PEM or OpenSSH form, starting with -----BEGIN",
          ],
          [
            value => !value.includes("-----BEGIN") || value.trim().includes("\n"),
            'has lost its line breaks: write "privateKey: |" and the lines of the key below it, indented',
          ],
          [
            value => value === "" || !value.trim().includes("\n") || holdsPlaceholder(value) || hasKeyBody(value),
            "is cut short: the base64 lines of the key must be between -----BEGIN and -----END",
          ],
        ),
      ),
      passphrase: optional(text({ description: "passphrase of the private key", secret: true })),
      agent: optional(
        text({ description: "socket of an SSH agent that holds the key", example: "/run/ssh-agent.sock" }),
      ),
      hostKey: optional(
        checked(
          {
            description: "the only accepted host key: one verified line of `ssh-keyscan <host>`",
            absent: "see hostKeyPolicy",
            example: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA...",
          },
          [
            value => value === "" || hostKeyShape.test(value.trim()),
            "must be a public key with its type, not a fingerprint: one line of `ssh-keyscan <host>`",
          ],
        ),
      ),
      knownHosts: optional(text({ description: "path of a known_hosts file", example: "/etc/csimux/known_hosts" })),
      hostKeyPolicy: optional(
        oneOf(["strict", "accept-new", "off"], {
          description:
            "what to do with an unknown host key: refuse it, remember the first one (in `--state-dir`), or accept any",
          absent: "strict with hostKey or knownHosts, else accept-new",
        }),
      ),
      keepaliveInterval: milliseconds("how often an idle connection is tested", 10_000),
      keepaliveCountMax: optional(
        whole({ description: "number of unanswered tests after which the connection is closed" }),
        3,
      ),
      readyTimeout: milliseconds("limit for connecting and logging in", 20_000),
      forceIPv4: optional(flag({ description: "use IPv4 only" }), false),
      forceIPv6: optional(flag({ description: "use IPv6 only" }), false),
      localAddress: optional(text({ description: "source address of the connection" })),
      algorithms: optional(
        described(v.record(v.string(), v.unknown()), {
          description: "kex, serverHostKey, cipher, hmac, compress: a list, or a mapping of append, prepend, remove",
          example: { kex: { append: ["diffie-hellman-group14-sha1"] } },
        }),
      ),
      debug: optional(flag({ description: "log the messages of the SSH client" }), false),
    },
    {
      description: "access to the storage host over SSH",
      aliases: { user: "username", privatekey: "privateKey", private_key: "privateKey", key: "privateKey" },
      ignored: Object.fromEntries(foreignKeys.map(key => [key, foreign])),
    },
  ),
  function* (value) {
    if (!value.password && !value.privateKey && !value.agent && !isPlaceholder(value.host))
      yield [["privateKey"], 'give "privateKey" or "password"'];
    if (value.forceIPv4 && value.forceIPv6) yield [["forceIPv6"], '"forceIPv4" and "forceIPv6" exclude each other'];
  },
);
