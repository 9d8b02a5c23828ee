import { isIPv6 } from "node:net";
import { CsiError } from "../../core/errors.ts";
import type { Context } from "../requests.ts";

/** The network address of a target. */
export interface Portal {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A LUN of a target and its portals. */
export interface Target {
  readonly iqn: string;
  readonly lun: bigint;
  readonly portals: readonly Portal[];
  /** The open-iscsi interface of the sessions; with "default", the kernel chooses the route. */
  readonly iface: string;
}

const defaultPort = 3260;

/** RFC 3720, 3.2.6.3; other characters that open-iscsi accepts are excluded, because the name is used in paths. */
const iqnForm = /^(?:iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]{1,210}|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16,32})$/;
const hostForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/;
const ifaceForm = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

/** The form of a portal for iscsiadm(8), -p. */
export const portalText = ({ host, port }: Portal): string => `${isIPv6(host) ? `[${host}]` : host}:${port}`;

/** The target of a volume context, with the keys of democratic-csi. Throws "invalid-argument". */
export function targetOf(context: Context, volumeId: string): Target {
  const invalid = (what: string) => new CsiError("invalid-argument", `volume "${volumeId}": ${what}`);
  const shown = (key: string) => `${key} ${JSON.stringify((context[key] ?? "").slice(0, 250))}`;
  const iqn = context["iqn"] ?? "";
  if (!iqnForm.test(iqn)) throw invalid(`${shown("iqn")} is not a target name`);
  const lun = context["lun"] ?? "";
  if (!/^[0-9]{1,5}$/.test(lun)) throw invalid(`${shown("lun")} is not a LUN`);
  const iface = context["interface"] || "default";
  if (!ifaceForm.test(iface)) throw invalid(`${shown("interface")} is not an interface name`);
  const texts = `${context["portal"] ?? ""},${context["portals"] ?? ""}`.split(",").map(text => text.trim());
  const portals = new Map<string, Portal>();
  for (const text of texts.filter(each => each !== "")) {
    const portal = portalOf(text);
    if (!portal) throw invalid(`the portal ${JSON.stringify(text.slice(0, 250))} is not of the form host:port`);
    portals.set(portalText(portal), portal);
  }
  if (portals.size === 0) throw invalid("neither portal nor portals is given");
  return { iqn, lun: BigInt(lun), iface, portals: [...portals.values()] };
}

function portalOf(text: string): Portal | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const bare = isIPv6(text) ? text : bracketed;
  const host = (bare ?? plain ?? "").toLowerCase();
  const port = Number(digits ?? defaultPort);
  const isFit = bare === undefined ? hostForm.test(host) : isIPv6(host);
  return isFit && port > 0 && port < 65_536 ? { host, port } : undefined;
}
