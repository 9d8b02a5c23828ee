import type { Path } from "../../schema/finding.ts";
import type { DocumentDiagnostic } from "../document.ts";
import { at, type ConnectionFile, listAt, mappingAt, textAt, textOf } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";
import { readingRules } from "./reading.ts";

const rule = rulesById({
  "credentials-over-http": warning(
    "Credentials are sent encrypted",
    "Anybody on the network path can read them. An API key over http is an error: newer TrueNAS revokes it.",
  ),
  "certificate-unchecked": warning(
    "Certificates are checked",
    "Without the check, anybody on the network path can pose as the server and read the credentials.",
  ),
  "host-key-unchecked": warning(
    "SSH host keys are known beforehand",
    "Without hostKey or knownHosts, the first key shown by the server is trusted from then on; with hostKeyPolicy: off, no key is ever checked.",
  ),
  "export-to-everybody": warning(
    "Exports with root access name the nodes",
    "An NFS server trusts a host about its users. With `no_root_squash`, `maproot=root` or `shareMaprootUser: root`, and without hosts or networks, every device and every pod that reaches the server is root on all volumes.",
  ),
  "chap-not-asked-for": error(
    "CHAP credentials are required",
    "With `userid` and `password` but without `authentication: 1`, LIO lets every initiator log in and write, although the file looks protected. csimux serves such a connection like democratic-csi. With `authentication: 1`, csimux also changes the targets of existing volumes at the next health check, and nodes that log in again need the password: give it to them first.",
  ),
});

/** Rules about how connections reach their storage systems, and who else can use the volumes. */
export const security: Theme = {
  rules: Object.values(rule),
  *check({ connections }) {
    for (const connection of connections) {
      yield* http(connection);
      yield* ssh(connection);
      yield* ssh(connection, "copies");
      yield* exports(connection);
      yield* chap(connection);
    }
  },
};

function* http({ document, read }: ConnectionFile): Found {
  const section = mappingAt(read.normalized, "httpConnection");
  if (textAt(section, "host") === undefined) return;
  const protocol = textAt(section, "protocol");
  const port = textAt(section, "port") ?? "";
  const password = Boolean(textAt(section, "password"));
  const apiKey = Boolean(textAt(section, "apiKey"));
  if (apiKey && password) {
    const message = '"password" has no effect because "apiKey" is set';
    const path = ["httpConnection", "password"];
    yield report(document, readingRules["ignored-key"], path, message, "remove one of the two", "key");
  }
  // Without `protocol`, democratic-csi guesses from the port: "80" in it means http, then "443" https, otherwise http.
  const isPlain = protocol ? protocol === "http" : port.includes("80") || !port.includes("443");
  if (isPlain) {
    // Reading the file refuses an API key over http.
    if (apiKey || !password) return;
    const path = ["httpConnection", ...(protocol === undefined ? [] : ["protocol"])];
    const fix = 'write "protocol: https" and the port of https';
    yield report(document, rule["credentials-over-http"], path, '"password" is sent unencrypted', fix);
  } else if (at(section, "allowInsecure") === true) {
    const message = "the server's certificate is not checked, so anybody on the network path can read the credentials";
    const fix = "trust the server's own certificate instead, with `ca` or `caFile`, or pin it with `fingerprint`";
    yield report(document, rule["certificate-unchecked"], ["httpConnection", "allowInsecure"], message, fix);
  }
}

function* ssh({ document, read }: ConnectionFile, ...above: readonly string[]): Found {
  const where = [...above, "sshConnection"];
  const section = mappingAt(read.normalized, ...where);
  if (textAt(section, "host") === undefined || !read.module) return;
  const fix = 'add "hostKey" with a line of `ssh-keyscan <host>` that you have verified';
  if (at(section, "hostKeyPolicy") === "off") {
    const message = "the server's host key is not checked, so anybody on the network path can pose as the server";
    yield report(
      document,
      rule["host-key-unchecked"],
      [...where, "hostKeyPolicy"],
      message,
      `remove the key, and ${fix}`,
    );
  } else if (["hostKey", "knownHosts", "hostKeyPolicy"].every(key => !at(section, key))) {
    const trusted =
      "the first host key shown by the server is trusted, even if another host poses as the server at that time";
    // Nothing was found by the command or the variable that was to give the key.
    const written = mappingAt(read.source.value, ...where);
    if (Object.hasOwn(written, "hostKey") && !written["hostKey"]) {
      const message = `"hostKey" is empty, so ${trusted}`;
      const filled =
        "write a line of `ssh-keyscan <host>` that you have verified; if that prints nothing, the host does not answer";
      yield report(document, rule["host-key-unchecked"], [...where, "hostKey"], message, filled, "key");
    } else yield report(document, rule["host-key-unchecked"], where, trusted, fix, "key");
  }
}

const sharenfs = ["nfs", "shareStrategySetDatasetProperties", "properties", "sharenfs"] as const;

/** With AUTH_SYS, an NFS server believes what a host says about its users (RFC 5531 section 14). */
function* exports({ document, read: { normalized } }: ConnectionFile): Found {
  const open = (path: Path, fix: string): DocumentDiagnostic =>
    report(document, rule["export-to-everybody"], path, "any host that reaches the server is root on all volumes", fix);
  const text = textAt(normalized, ...sharenfs);
  if (text !== undefined) {
    const fix = everybodyByProperty(text);
    if (fix !== undefined) yield open(sharenfs, fix);
  } else {
    const key = everybodyOnTrueNas(mappingAt(normalized, "nfs"));
    if (key !== undefined)
      yield open(["nfs", key], 'name the networks of the nodes in "shareAllowedNetworks": [10.0.0.0/24]');
  }
  // DSM: users of nodes keep their ids ("no_map"), root becomes admin ("root_admin"), or everybody does ("all_admin").
  const squash = textAt(normalized, "nfs", "squash") ?? "no_map";
  if (isEverybody(listAt(normalized, "nfs", "allowedHosts")) && ["no_map", "root_admin", "all_admin"].includes(squash))
    yield open(["nfs", "allowedHosts"], "name the nodes or their network: [10.0.0.0/24]");
}

/**
 * The fix for a property sharenfs that gives everybody root access; undefined if it does not. Options are those of exports(5), with hosts
 * as `rw=<host>:@<network>` (zfsprops(7)); on FreeBSD those of its own exports(5).
 */
function everybodyByProperty(text: string): string | undefined {
  const options = text.split(/[\s,]+/).filter(option => option !== "");
  const asRoot = options.some(option => /^no_root_squash$|^-?maproot=(?:root|0)(?::|$)/.test(option));
  if (!asRoot || text.includes("{{") || options.some(namesHosts)) return undefined;
  const freeBsd = options.some(option => /^-?maproot=/.test(option));
  return freeBsd ? 'add "-network 10.0.0.0/24"' : 'name the nodes instead of "rw": "rw=@10.0.0.0/24"';
}

function namesHosts(option: string): boolean {
  const [key = "", value] = option.split(/=(.*)/s);
  if (/^-network/.test(key)) return true;
  if (!/^(?:rw|ro)$/.test(key) || value === undefined) return false;
  return value.split(":").every(host => host !== "" && !everybody.has(host));
}

/** Notations for any host. */
const everybody: ReadonlySet<string> = new Set(["*", "@0.0.0.0/0", "0.0.0.0/0", "@0/0", "::/0", "@::/0"]);

const isEverybody = (hosts: readonly unknown[]): boolean => hosts.some(host => everybody.has(textOf(host)));

/** The key of the allowed hosts if everybody has root access; TrueNAS takes empty lists for everybody. */
function everybodyOnTrueNas(nfs: unknown): string | undefined {
  const user = textAt(nfs, "shareMapallUser") || textAt(nfs, "shareMaprootUser");
  if (user !== "root" && user !== "0") return undefined;
  const networks = listAt(nfs, "shareAllowedNetworks");
  const hosts = listAt(nfs, "shareAllowedHosts");
  if (hosts.length + networks.length > 0 && !isEverybody([...hosts, ...networks])) return undefined;
  return networks.length > 0 ? "shareAllowedNetworks" : "shareAllowedHosts";
}

const group = ["iscsi", "shareStrategyTargetCli", "tpg"] as const;

/** Without `authentication`, LIO requires no login, and targetcli disables it in every group that it creates. */
function* chap({ document, read: { normalized } }: ConnectionFile): Found {
  const user = textAt(normalized, ...group, "auth", "userid") ?? "";
  const path = [...group, "attributes", "authentication"];
  if (user === "" || textAt(normalized, ...path) === "1") return;
  const message = "anybody may log in, although userid and password are set";
  yield report(document, rule["chap-not-asked-for"], path, message, "set it to 1");
}
