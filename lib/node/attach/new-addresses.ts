import { isIPv6 } from "node:net";
import type { VolumeContext } from "../requests.ts";
import type { Attacher } from "./attacher.ts";
import type { Attachers } from "./attachers.ts";

/** The present address of a storage by the one that volumes were created with; hosts in lower case, IPv6 without brackets. */
export type NewAddresses = Readonly<Record<string, string>>;

/** The keys of a volume context that hold addresses, separated by commas. */
const addressKeys = ["server", "portal", "portals", "transport", "transports"] as const;

/** A scheme, a host (IPv6 in brackets), and what follows it: a port, options. Not the network identifiers of Lustre. */
const entryForm = /^(\s*(?:\w+:\/\/)?)(\[[^\]]+\]|[^\s:/?@[\]]+)(\s*(?:[:/?].*)?)$/s;

/** An address with its host in lower case and without brackets; undefined if it has another form. */
function addressParts(entry: string) {
  const bare = entry.trim();
  const [, before = "", host = "", after = ""] = isIPv6(bare) ? ["", "", bare, ""] : (entryForm.exec(entry) ?? []);
  return host === "" ? undefined : { before, host: host.replace(/^\[|\]$/g, "").toLowerCase(), after };
}

const inBrackets = (host: string): string => (isIPv6(host) ? `[${host}]` : host);

function entryAt(entry: string, addresses: NewAddresses): string {
  const { before, host, after } = addressParts(entry) ?? { before: "", host: "", after: "" };
  return Object.hasOwn(addresses, host) ? `${before}${inBrackets(addresses[host] ?? "")}${after}` : entry;
}

/** The context of a volume whose storage is reached at new addresses. */
export function contextAt(context: VolumeContext, addresses: NewAddresses): VolumeContext {
  const changed: Record<string, string> = {};
  for (const key of addressKeys) {
    const text = context[key];
    if (text === undefined) continue;
    changed[key] = text
      .split(",")
      .map(entry => entryAt(entry, addresses))
      .join(",");
  }
  return { ...context, ...changed };
}

/** The context with the old addresses after the new ones: what was attached before the storage moved is detached, too. */
const contextAtBoth = (context: VolumeContext, now: VolumeContext): VolumeContext =>
  Object.fromEntries(
    Object.entries(now).map(([key, text]) => {
      const before = context[key] ?? "";
      return [key, text === before ? text : `${text},${before}`];
    }),
  );

/**
 * The attachers, which reach storages at their new addresses: the context of a PersistentVolume cannot be changed when a NAS gets another
 * address. Records of volumes keep the context as the orchestrator sends it. `addresses` returns the present table.
 */
export function atNewAddresses(known: Attachers, addresses: () => NewAddresses): Attachers {
  const at = <T extends { readonly context: VolumeContext }>(volume: T): T => ({
    ...volume,
    context: contextAt(volume.context, addresses()),
  });
  const moved = (attacher: Attacher): Attacher => {
    const { access, lockOf, check, detach, storageOf, health, restore, grow } = attacher;
    const both = ({ context, ...attachment }: Parameters<NonNullable<typeof detach>>[0]) => ({
      ...attachment,
      context: contextAtBoth(context, contextAt(context, addresses())),
    });
    return {
      access,
      attach: ({ others = async () => [], ...wanted }, note, call) =>
        attacher.attach({ ...at(wanted), others: async () => (await others()).map(both) }, note, call),
      ...(lockOf && { lockOf }),
      ...(check && { check: (context, volumeId) => check(contextAt(context, addresses()), volumeId) }),
      ...(detach && { detach: (attachment, others, call) => detach(both(attachment), others, call) }),
      ...(storageOf && { storageOf: context => storageOf(contextAt(context, addresses())) }),
      ...(health && { health: attachment => health(at(attachment)) }),
      ...(restore && { restore: (attachment, call) => restore(at(attachment), call) }),
      ...(grow && { grow: (attachment, least, call) => grow(at(attachment), least, call) }),
    };
  };
  return new Map([...known].map(([protocol, attacher]) => [protocol, moved(attacher)]));
}
