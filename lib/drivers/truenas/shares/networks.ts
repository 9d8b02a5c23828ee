import { isIP } from "node:net";

/** Networks as TrueNAS keeps them: sanitize_networks in plugins/nfs_/validators.py of TS-25.04.2.6 to TS-26.0.0-BETA.3. */

/** A network as bits; the first `prefix` of `width` count. */
interface Network {
  readonly width: 32 | 128;
  readonly bits: bigint;
  readonly prefix: number;
}

function bitsOfIpv6(address: string): bigint {
  // The canonical form has hexadecimal groups only.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (text: string): readonly string[] => (text === "" ? [] : text.split(":"));
  const [before, after] = [groups(head), groups(tail ?? "")];
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - before.length - after.length }, () => "0");
  return [...before, ...zeros, ...after].reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
}

const bitsOfIpv4 = (address: string): bigint =>
  address.split(".").reduce((bits, part) => (bits << 8n) | BigInt(part), 0n);

/** The network, without the bits of a host; undefined for text that is none. */
function networkOf(text: string): Network | undefined {
  const [address = "", size = ""] = text.split("/");
  const family = isIP(address);
  const width = family === 6 ? 128 : 32;
  const prefix = Number(size);
  if (family === 0 || !/^[0-9]{1,3}$/.test(size) || prefix > width) return undefined;
  const host = BigInt(width - prefix);
  const bits = family === 6 ? bitsOfIpv6(address) : bitsOfIpv4(address);
  return { width, prefix, bits: (bits >> host) << host };
}

function textOf({ width, bits, prefix }: Network): string {
  const unit = width === 32 ? 8 : 16;
  const parts = Array.from({ length: width / unit }, (_, n) =>
    BigInt.asUintN(unit, bits >> BigInt(width - unit * (n + 1))),
  );
  const address =
    width === 32 ? parts.join(".") : new URL(`http://[${parts.map(each => each.toString(16)).join(":")}]`).hostname;
  return `${address.replace(/^\[|\]$/g, "")}/${prefix}`;
}

const contains = (outer: Network, inner: Network): boolean =>
  outer.width === inner.width &&
  outer.prefix <= inner.prefix &&
  (outer.bits ^ inner.bits) >> BigInt(outer.width - outer.prefix) === 0n;

/** Whether text is a network with its prefix length. */
export const isNetwork = (text: string): boolean => networkOf(text) !== undefined;

/** The same networks in canonical form, without those that are in another one, because the server refuses both. */
export function canonicalNetworks(texts: readonly string[]): readonly string[] {
  const all = texts.map(networkOf).filter(each => each !== undefined);
  const kept = all.filter(
    (each, n) => !all.some((other, m) => m !== n && contains(other, each) && (other.prefix < each.prefix || m < n)),
  );
  return kept.map(textOf);
}
