import { isIP } from "node:net";
import { Invalid } from "./failure.ts";
import type { Nas } from "./state.ts";

/**
 * The networks of a share as they are kept: in canonical form, and none within another (sanitize_networks in plugins/nfs_/validators.py
 * of TS-25.04.2.6 to TS-26.0.0-BETA.3; from 25.10 on not "all networks"). From 23.10 to 24.10 the
 * text is kept and compared alone (validate_share_networks_input and validate_share_networks in plugins/nfs.py of TS-23.10.2 and TS-24.10.2.4);
 * before, a share may name networks within others (plugins/nfs.py of TS-22.12.4.2).
 */
export function networksOf(nas: Nas, given: readonly string[]): readonly string[] {
  if (nas.number < 2310) return given;
  const at = "sharingnfs_create.networks";
  const parsed = given.map(text => networkOf(text));
  const kept = parsed.map((each, n) => {
    if (!each) throw new Invalid([`${at}.${n}`, `${given[n]} does not appear to be an IPv4 or IPv6 network`, 22]);
    if (nas.number >= 2510 && each.prefix === 0)
      throw new Invalid([`${at}.${n}`, `Do not use ${given[n]} to represent all-networks`, 22]);
    return each;
  });
  for (const [n, each] of kept.entries())
    if (kept.some((other, m) => m !== n && contains(other, each)))
      throw new Invalid([at, `ERROR - Overlapped subnets: ${each.text}`, 22]);
  return nas.number < 2504 ? given : kept.map(({ text }) => text);
}

/** A network: its bits as text of 0 and 1, of which the first `prefix` count. */
interface Network {
  readonly text: string;
  readonly bits: string;
  readonly prefix: number;
}

const contains = (outer: Network, inner: Network): boolean =>
  outer.bits.length === inner.bits.length &&
  outer.prefix <= inner.prefix &&
  inner.bits.startsWith(outer.bits.slice(0, outer.prefix));

/** Whether networks of two shares conflict: up to 22.12 only equal ones (test_for_overlapped_networks in plugins/nfs.py of TS-23.10.2). */
export function areOverlapping({ number }: Nas, one: string, other: string): boolean {
  const [a, b] = [networkOf(one), networkOf(other)];
  if (!a || !b || number < 2310) return (a?.text ?? one) === (b?.text ?? other);
  return contains(a, b) || contains(b, a);
}

/** As ipaddress.ip_network(strict=False) of Python reads it; undefined for what is none. */
function networkOf(text: string): Network | undefined {
  const [address = "", size] = text.split("/");
  const family = isIP(address);
  const prefix = Number(size ?? (family === 6 ? 128 : 32));
  if (family === 0 || prefix > (family === 6 ? 128 : 32)) return undefined;
  const parts = family === 6 ? expanded(address) : address.split(".").map(Number);
  const width = family === 6 ? 16 : 8;
  const all = parts.map(part => part.toString(2).padStart(width, "0")).join("");
  const bits = all.slice(0, prefix).padEnd(all.length, "0");
  const groups = parts.map((_, n) => Number.parseInt(bits.slice(n * width, (n + 1) * width), 2));
  const plain = family === 6 ? groups.map(each => each.toString(16)).join(":") : groups.join(".");
  const short = family === 6 ? new URL(`http://[${plain}]`).hostname.slice(1, -1) : plain;
  return { text: `${short}/${prefix}`, bits, prefix };
}

/** The eight groups of an address of IPv6. */
function expanded(address: string): readonly number[] {
  const [head = "", tail] = address.split("::");
  const groups = (part: string): number[] =>
    part === "" ? [] : part.split(":").map(each => Number.parseInt(each, 16));
  if (tail === undefined) return groups(head);
  const [before, after] = [groups(head), groups(tail)];
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after];
}
