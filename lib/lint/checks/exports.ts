import { type Path, type SchemaFinding, warning } from "../../schema/finding.ts";
import { type LintInput, listAt, mappingAt, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";

/**
 * Exports that any host may mount as root: with AUTH_SYS the server believes what a host says of its users (RFC 5531 section 14),
 * so every host and every pod that reaches the server is root on all volumes.
 */
export function* exports({ connections }: LintInput): Iterable<DocumentFinding> {
  for (const { leaf, read } of connections) {
    for (const finding of [...property(read.tidied), ...trueNas(read.tidied), ...synology(read.tidied)])
      yield { leaf, finding };
  }
}

const open = (path: Path, fix: string): SchemaFinding =>
  warning("export-to-everybody", path, "any host that reaches the server is root on all volumes", fix);

const sharenfs = ["nfs", "shareStrategySetDatasetProperties", "properties", "sharenfs"] as const;

/** zfsprops(7), sharenfs: options of exports(5), with hosts as `rw=<host>:@<network>`; on FreeBSD those of its own exports(5). */
function* property(tidied: unknown): Iterable<SchemaFinding> {
  const text = textAt(tidied, ...sharenfs) ?? "";
  const options = text.split(/[\s,]+/).filter(option => option !== "");
  const asRoot = options.some(option => /^no_root_squash$|^-?maproot=(?:root|0)(?::|$)/.test(option));
  if (!asRoot || text.includes("{{") || options.some(isHosts)) return;
  const freeBsd = options.some(option => /^-?maproot=/.test(option));
  yield open(sharenfs, freeBsd ? 'add "-network 10.0.0.0/24"' : 'name the nodes instead of "rw": "rw=@10.0.0.0/24"');
}

/** Whether an option says who may mount, and does not name everybody. */
function isHosts(option: string): boolean {
  const [key = "", value] = option.split(/=(.*)/s);
  if (/^-network/.test(key)) return true;
  if (!/^(?:rw|ro)$/.test(key) || value === undefined) return false;
  return value.split(":").every(host => host !== "" && !everybody.has(host));
}

/** Ways to write that any host is meant. */
const everybody: ReadonlySet<string> = new Set(["*", "@0.0.0.0/0", "0.0.0.0/0", "@0/0", "::/0", "@::/0"]);

const isEverybody = (hosts: readonly unknown[]): boolean => hosts.some(host => everybody.has(String(host)));

/** Of TrueNAS empty lists of hosts and networks mean everybody. */
function* trueNas(tidied: unknown): Iterable<SchemaFinding> {
  const nfs = mappingAt(tidied, "nfs");
  if (textAt(tidied, ...sharenfs) !== undefined) return;
  const user = textAt(nfs, "shareMapallUser") || textAt(nfs, "shareMaprootUser");
  if (user !== "root" && user !== "0") return;
  const networks = listAt(nfs, "shareAllowedNetworks");
  const hosts = listAt(nfs, "shareAllowedHosts");
  if (hosts.length + networks.length > 0 && !isEverybody([...hosts, ...networks])) return;
  const key = networks.length > 0 ? "shareAllowedNetworks" : "shareAllowedHosts";
  yield open(["nfs", key], 'name the networks of the nodes in "shareAllowedNetworks": [10.0.0.0/24]');
}

/** DSM: users of nodes stay who they are ("no_map"), root becomes admin ("root_admin"), or everybody does ("all_admin"). */
function* synology(tidied: unknown): Iterable<SchemaFinding> {
  const hosts = listAt(tidied, "nfs", "allowedHosts");
  const squash = textAt(tidied, "nfs", "squash") ?? "no_map";
  if (!isEverybody(hosts) || !["no_map", "root_admin", "all_admin"].includes(squash)) return;
  yield open(["nfs", "allowedHosts"], "name the nodes or their network: [10.0.0.0/24]");
}
