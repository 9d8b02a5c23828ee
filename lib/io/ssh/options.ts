import { CsiError } from "../../core/errors.ts";
import type { Argv } from "../runner.ts";
import { type SshSettings, whereOf } from "./settings.ts";

/** The files of a login. */
export interface LoginFiles {
  /** The private key, if there is one. */
  readonly key: string | undefined;
  /** Our own known_hosts: the host key of the settings, or the first one received. */
  readonly knownHosts: string;
  /** The file for the client's messages, so that stderr comes from the remote side only. */
  readonly log: string;
}

/** The host's name in our own known_hosts: with an alias neither its port nor its addresses matter. */
const alias = "csimux-host";

/**
 * The command for the remote login shell, whichever shell it is. All else goes through the standard input of this sh.
 */
const remoteShell = "exec /bin/sh";

/** The host key policy of the settings, or the default that follows from the keys they name. */
export const policyOf = ({ hostKeyPolicy, hostKey, knownHosts }: SshSettings): "strict" | "accept-new" | "off" =>
  hostKeyPolicy ?? (hostKey || knownHosts ? "strict" : "accept-new");

/** Whether the first host key received is trusted from then on. */
export const trustsFirst = (settings: SshSettings): boolean =>
  policyOf(settings) === "accept-new" && !settings.hostKey && !settings.knownHosts;

/**
 * A line of known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT) for each key in `hostKey`. Throws "failed-precondition"
 * if there is none.
 */
export function knownHostsText(settings: SshSettings): string {
  const keys = [
    ...(settings.hostKey ?? "").matchAll(/((?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+)[ \t]+(AAAA[A-Za-z0-9+/]+=*)/g),
  ];
  if (keys.length > 0) return keys.map(([, type, key]) => `${alias} ${type} ${key}\n`).join("");
  const text = `${whereOf(settings)}: hostKey is not a host key; give one line of ssh-keyscan, such as "ssh-ed25519 AAAA..."`;
  throw new CsiError("failed-precondition", text);
}

const seconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/** A path as an ssh_config(5) value: in quotes, with "%" doubled because tokens start with it. */
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

/**
 * A list replaces the client's default; `append`, `prepend` or `remove` modifies it, one of them per kind
 * (ssh_config(5)).
 */
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

/**
 * The argv of one login without a terminal: `command` is for the account's login shell, by default a shell that reads its input. Throws "failed-precondition" for settings that ssh
 * cannot express.
 */
export function loginArgv(settings: SshSettings, files: LoginFiles, command: string = remoteShell): Argv {
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
    // 0 means "keepalive off" in other programs; an untested connection would hang for hours.
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
    command,
  ];
}
