import * as v from "valibot";
import {
  type About,
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

/** How storage systems are reached: by nodes, over HTTP, over SSH. */

const transportShape =
  /^(?:(?:tcp|rdma):\/\/(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?(?:\?[^\s]*)?|fc:\/\/\[?nn-0x[0-9A-Fa-f]+:pn-0x[0-9A-Fa-f]+\]?(?:\?[^\s]*)?)$/;

/** An NVMe over fabrics address: tcp://, rdma:// or fc://. */
const transport = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.string(),
      v.check(
        value => value === "" || isPlaceholder(value) || transportShape.test(value),
        "must look like tcp://host:4420, rdma://host:4420 or fc://[nn-0x...:pn-0x...]",
      ),
    ),
    about,
  );

/** Where nodes reach iSCSI targets. */
export const portals = {
  targetPortal: optional(
    portal({
      description: "where nodes reach the targets: host or host:port, 3260 without a port",
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

/** The rule that a volume needs a portal to be reached. */
export function* somePortal(value: {
  readonly targetPortal: string;
  readonly targetPortals: readonly string[];
}): Generator<readonly [readonly (string | number)[], string]> {
  if (value.targetPortal !== "" || value.targetPortals.some(each => each !== "")) return;
  yield [["targetPortal"], 'nodes need a portal: give "targetPortal" or "targetPortals"'];
}

/** The rule that CHAP needs user and password together, and mutual CHAP the other direction too. `keys` are those of the block. */
export function* chapPairs<K extends string>(
  value: { readonly [key in K]?: string | undefined },
  keys: {
    readonly user: K;
    readonly password: K;
    readonly mutualUser: K;
    readonly mutualPassword: K;
  },
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

/** Where nodes reach NVMe subsystems. */
export const transports = {
  transport: optional(
    transport({ description: "where nodes reach the subsystems", example: "tcp://nas.example.org:4420" }),
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

/** The rule that a volume needs a transport to be reached. */
export function* someTransport(value: {
  readonly transport: string;
  readonly transports: readonly string[];
}): Generator<readonly [readonly (string | number)[], string]> {
  if (value.transport !== "" || value.transports.some(each => each !== "")) return;
  yield [["transports"], 'nodes need an address: give "transports" or "transport"'];
}

/** The address of a management interface over HTTP; `secrets` are the credentials that it takes. */
export const httpAddress = {
  protocol: optional(
    oneOf(["http", "https"], {
      description: "https, or http where nobody can listen: credentials travel over it",
      absent: "https where the port contains 443, else http",
    }),
  ),
  host: host({ description: "name or address of the system", example: "nas.example.org" }),
  port: optional(port({ description: "TCP port", absent: "the protocol's own", example: 443 })),
  allowInsecure: optional(
    flag({ description: "accept any certificate: anybody in between can read the credentials" }),
    false,
  ),
  ca: optional(
    described(
      v.pipe(
        v.string(),
        v.check(
          value => value === "" || /-----BEGIN CERTIFICATE-----/.test(value),
          "must be the text of a certificate in PEM form, beginning with -----BEGIN CERTIFICATE-----",
        ),
      ),
      {
        description: "the certificate authority, or the server's own certificate, to trust; the whole text",
        absent: "the authorities that this host trusts",
        secret: true,
      },
    ),
  ),
  fingerprint: optional(
    described(
      v.pipe(
        v.string(),
        v.check(
          value => value === "" || /^[0-9A-Fa-f]{64}$/.test(value.replaceAll(":", "")),
          "must be a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons",
        ),
      ),
      {
        description:
          "SHA-256 fingerprint of the only certificate to accept, as `openssl x509 -noout -fingerprint -sha256` prints it",
        absent: "not pinned",
        example: `${"9A:3F:".repeat(15)}9A:3F`,
      },
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

/** `sshConnection`: how a storage host is reached. */
export const sshConnection = consistent(
  record(
    {
      host: host({ description: "name or address of the storage host", example: "nas.example.org" }),
      port: optional(port({ description: "TCP port of sshd" }), 22),
      username: filled({ description: "account that may run zfs and the tools of the share", example: "root" }),
      password: optional(text({ description: "password of the account; a key is better", secret: true })),
      privateKey: optional(
        described(
          v.pipe(
            v.string(),
            v.check(
              value => value === "" || /^\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(value),
              "must be the text of a private key in PEM or OpenSSH form, beginning with -----BEGIN",
            ),
            v.check(
              value => !value.includes("-----BEGIN") || value.trim().includes("\n"),
              'has lost its line breaks: write "privateKey: |" and the lines of the key below it, indented',
            ),
            v.check(
              value => value === "" || !value.trim().includes("\n") || holdsPlaceholder(value) || hasKeyBody(value),
              "is cut short: between -----BEGIN and -----END belong the lines of the key, in base64",
            ),
          ),
          { description: "private key of the account, the whole text", secret: true },
        ),
      ),
      passphrase: optional(text({ description: "passphrase of the private key", secret: true })),
      agent: optional(
        text({ description: "socket of an SSH agent that holds the key", example: "/run/ssh-agent.sock" }),
      ),
      hostKey: optional(
        described(
          v.pipe(
            v.string(),
            v.check(
              value => value === "" || hostKeyShape.test(value.trim()),
              "must be a public key with its type, not a fingerprint: one line of `ssh-keyscan <host>`",
            ),
          ),
          {
            description: "the only host key to accept: one line of `ssh-keyscan <host>` that you have checked",
            absent: "see hostKeyPolicy",
            example: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA...",
          },
        ),
      ),
      knownHosts: optional(text({ description: "path of a known_hosts file", example: "/etc/csimux/known_hosts" })),
      hostKeyPolicy: optional(
        oneOf(["strict", "accept-new", "off"], {
          description:
            "what to do with a host key that is not known: refuse, remember the first one (in `--state-dir`), or accept anything",
          absent: "strict with hostKey or knownHosts, else accept-new",
        }),
      ),
      keepaliveInterval: milliseconds("how often an idle connection is tested", 10_000),
      keepaliveCountMax: optional(whole({ description: "unanswered tests after which the connection is given up" }), 3),
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
      debug: optional(flag({ description: "log what the SSH client says" }), false),
    },
    {
      description: "how the storage host is reached",
      aliases: { user: "username", privatekey: "privateKey", private_key: "privateKey", key: "privateKey" },
      ignored: Object.fromEntries(
        [
          "agentForward",
          "tryKeyboard",
          "authHandler",
          "localHostname",
          "localUsername",
          "hostHash",
          "hostVerifier",
          "strictVendor",
        ].map(key => [key, foreign]),
      ),
    },
  ),
  function* (value) {
    if (!value.password && !value.privateKey && !value.agent && !isPlaceholder(value.host))
      yield [["privateKey"], 'give "privateKey" or "password"'];
    if (value.forceIPv4 && value.forceIPv6) yield [["forceIPv6"], '"forceIPv4" and "forceIPv6" exclude each other'];
  },
);
