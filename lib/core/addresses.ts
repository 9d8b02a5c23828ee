/** Part of a volume context. */
type Context = Readonly<Record<string, string>>;

/** The keys of a volume context that hold addresses, separated by commas. */
export const addressKeys = ["server", "portal", "portals", "transport", "transports"] as const;

/** A scheme, a host (IPv6 in brackets), and what follows it: a port, options. Not the network identifiers of Lustre. */
const entryForm = /^(\s*(?:\w+:\/\/)?)(\[[^\]]+\]|[^\s:/?@[\]]+)(\s*(?:[:/?].*)?)$/s;

/** Whether a text is an IPv6 address, perhaps with a zone. */
const isIPv6 = (text: string): boolean =>
  /^[0-9a-f:.]*:[0-9a-f:.]*(?:%[\w.-]+)?$/i.test(text) && URL.canParse(`http://[${text.replace(/%.*$/, "")}]`);

/** An address with its host in lower case and without brackets; undefined if it has another form. */
export function addressParts(entry: string) {
  const bare = entry.trim();
  const [, before = "", host = "", after = ""] = isIPv6(bare) ? ["", "", bare, ""] : (entryForm.exec(entry) ?? []);
  return host === "" ? undefined : { before, host: host.replace(/^\[|\]$/g, "").toLowerCase(), after };
}

/** One spelling of a host: of IPv6 without a zone (RFC 5952), of names without the final dot. */
function spelled(host: string): string {
  const address = host.replace(/%.*$/, "");
  return isIPv6(address) ? new URL(`http://[${address}]`).hostname.slice(1, -1) : host.replace(/\.$/, "");
}

/** The hosts in texts with addresses separated by commas, each once. */
const hostsIn = (texts: readonly string[]): readonly string[] => [
  ...new Set(
    texts
      .flatMap(text => text.split(","))
      .flatMap(entry => addressParts(entry)?.host ?? [])
      .map(spelled),
  ),
];

/** The texts of a volume context that hold addresses. */
export const addressesIn = (context: Context): readonly string[] => addressKeys.flatMap(key => context[key] ?? []);

/** What to do about a foreign address. */
export const foreignAddressRemedy =
  "if its storage has moved, add the old address to node.addresses in the main file of the nodes";

/**
 * Says that none of the addresses of a volume is among those of its connection, `own` (texts as in a context); undefined if one is, if
 * either has none, or if `isMapped` knows one of the volume's hosts as moved. A name and its address are different texts for one storage,
 * so this is worth a warning and no refusal.
 */
export function foreignAddress(
  connection: string,
  context: Context,
  own: readonly string[],
  isMapped: (host: string) => boolean,
): string | undefined {
  const theirs = hostsIn(addressesIn(context));
  const known = hostsIn(own);
  if (theirs.length === 0 || known.length === 0) return undefined;
  if (theirs.some(host => known.includes(host) || isMapped(host))) return undefined;
  const shown = (hosts: readonly string[]) => hosts.slice(0, 4).join(", ").slice(0, 300);
  return `the volume's address ${shown(theirs)} is none of connection "${connection}" (${shown(known)})`;
}
