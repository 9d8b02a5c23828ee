import { CsiError } from "../../core/errors.ts";
import type { Argv } from "../runner.ts";
import { type SshSettings, whereOf } from "./settings.ts";

/** Files that a login reads. */
export interface LoginFiles {
  /** The private key, where there is one. */
  readonly key: string | undefined;
  /** known_hosts of our own: the host key of the settings, or the first one that was seen. */
  readonly knownHosts: string;
  /** Where the client writes its messages, so that stderr is the remote side's alone. */
  readonly log: string;
}

/** The name under which our own known_hosts has the host: with an alias neither its port nor its addresses matter. */
const alias = "csimux-host";

/** What the remote login shell is asked for, whichever shell that is. All else goes through the standard input of this sh. */
const remoteCommand = "exec /bin/sh";

/** What is done with host keys: the policy of the settings, or what follows from the keys they name. */
export const policyOf = ({ hostKeyPolicy, hostKey, knownHosts }: SshSettings): "strict" | "accept-new" | "off" =>
  hostKeyPolicy ?? (hostKey || knownHosts ? "strict" : "accept-new");

/** Whether the first host key that is seen is trusted from then on. */
export const trustsFirst = (settings: SshSettings): boolean =>
  policyOf(settings) === "accept-new" && !settings.hostKey && !settings.knownHosts;

/** The line of known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT) for each key in `hostKey`. Throws "failed-precondition" when there is none. */
export function knownHostsText(settings: SshSettings): string {
  const keys = [
    ...(settings.hostKey ?? "").matchAll(/((?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+)[ \t]+(AAAA[A-Za-z0-9+/]+=*)/g),
  ];
  if (keys.length > 0) return keys.map(([, type, key]) => `${alias} ${type} ${key}\n`).join("");
  throw new CsiError(
    "failed-precondition",
    `${whereOf(settings)}: hostKey is not a host key; give one line of ssh-keyscan, such as "ssh-ed25519 AAAA..."`,
  );
}

const seconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/** A path as a value of ssh_config(5): in quotes, with "%" doubled because tokens begin with it. */
const file = (path: string): string => `"${path.replaceAll("%", "%%")}"`;

function hostKeys(settings: SshSettings, files: LoginFiles): readonly string[] {
  const own = [`UserKnownHostsFile=${file(files.knownHosts)}`, `HostKeyAlias=${alias}`];
  const policy = policyOf(settings);
  if (policy === "off") return ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"];
  const strict = policy === "strict" ? "yes" : "accept-new";
  const known = settings.hostKey || !settings.knownHosts ? own : [`UserKnownHostsFile=${file(settings.knownHosts)}`];
  return [`StrictHostKeyChecking=${strict}`, ...known];
}

function authentication(settings: SshSettings, files: LoginFiles): readonly string[] {
  const { password, passphrase, agent } = settings;
  const ways = [
    ...(files.key || agent ? ["publickey"] : []),
    ...(password ? ["password", "keyboard-interactive"] : []),
  ];
  return [
    `IdentityAgent=${agent ? file(agent) : "none"}`,
    `IdentityFile=${files.key ? file(files.key) : "none"}`,
    `IdentitiesOnly=${files.key || !agent ? "yes" : "no"}`,
    `PreferredAuthentications=${ways.join(",") || "none"}`,
    `BatchMode=${password || passphrase ? "no" : "yes"}`,
    "NumberOfPasswordPrompts=1",
  ];
}

const algorithmOptions: Readonly<Record<string, string>> = {
  kex: "KexAlgorithms",
  serverHostKey: "HostKeyAlgorithms",
  cipher: "Ciphers",
  hmac: "MACs",
};
const signs = { append: "+", prepend: "^", remove: "-" } as const;

/** A list replaces the client's own; `append`, `prepend` and `remove` change it, one of them for each kind (ssh_config(5)). */
function algorithms(settings: SshSettings): readonly string[] {
  return Object.entries(settings.algorithms ?? {}).map(([kind, value]) => {
    const fault = (why: string) =>
      new CsiError("failed-precondition", `${whereOf(settings)}: algorithms.${kind} ${why}`);
    const names = (list: unknown): string => {
      const words = (Array.isArray(list) ? list : [list]).map(String);
      if (words.every(word => /^[A-Za-z0-9@._*-]+$/.test(word))) return words.join(",");
      throw fault("must be names of algorithms");
    };
    if (kind === "compress") return `Compression=${names(value).startsWith("zlib") ? "yes" : "no"}`;
    const option = algorithmOptions[kind];
    if (!option) throw fault(`is not one of ${Object.keys(algorithmOptions).join(", ")}, compress`);
    if (Array.isArray(value) || typeof value === "string") return `${option}=${names(value)}`;
    const changes = Object.entries(value ?? {});
    const [verb, list] = changes[0] ?? [];
    const sign = signs[verb as keyof typeof signs];
    if (changes.length !== 1 || !sign) throw fault("must be a list, or one of append, prepend and remove with a list");
    return `${option}=${sign}${names(list)}`;
  });
}

/** The argv of one login that ends in a shell without a terminal. Throws "failed-precondition" for settings that ssh cannot be told. */
export function loginArgv(settings: SshSettings, files: LoginFiles): Argv {
  const { host, port, username, localAddress, forceIPv4, forceIPv6, debug } = settings;
  const options = [
    ...hostKeys(settings, files),
    ...authentication(settings, files),
    ...algorithms(settings),
    "GlobalKnownHostsFile=none",
    "UpdateHostKeys=no",
    "GSSAPIAuthentication=no",
    "HostbasedAuthentication=no",
    "ClearAllForwardings=yes",
    "EscapeChar=none",
    `ConnectTimeout=${seconds(settings.readyTimeout)}`,
    // 0 turns keepalive off in the settings of other programs; a connection that nobody tests would hang for hours.
    `ServerAliveInterval=${seconds(settings.keepaliveInterval || 10_000)}`,
    `ServerAliveCountMax=${Math.max(1, settings.keepaliveCountMax ?? 3)}`,
    `LogLevel=${debug ? "DEBUG1" : "ERROR"}`,
  ];
  return [
    ...(["ssh", "-F", "none", "-T", "-E", files.log, "-p", String(port), "-l", username] as const),
    ...(forceIPv4 ? ["-4"] : []),
    ...(forceIPv6 ? ["-6"] : []),
    ...(localAddress ? ["-b", localAddress] : []),
    ...options.flatMap(option => ["-o", option]),
    "--",
    host,
    remoteCommand,
  ];
}
