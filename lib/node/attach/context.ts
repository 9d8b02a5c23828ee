import { isIPv6 } from "node:net";
import type { Secrets } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { keyPrefix } from "../../core/name.ts";
import type { VolumeContext } from "../requests.ts";
import type { AttachRequest, StorageAddresses } from "./attacher.ts";

/** The secrets for a volume under their bare keys. As in democratic-csi, a key may have a keyPrefix; the narrower scope wins, in any order. */
export function ownSecrets(secrets: Secrets, context: VolumeContext): Secrets {
  const names = [context["provisioner_driver_instance_id"], context["provisioner_driver"]];
  const scopes = [...names.flatMap(name => (name ? [`${keyPrefix}${name}/`] : [])), keyPrefix];
  const found = new Map<string, string>();
  for (const scope of scopes) {
    for (const [key, value] of Object.entries(secrets)) {
      const bare = key.startsWith(scope) ? key.slice(scope.length) : "";
      if (bare && !bare.includes("/") && !found.has(bare)) found.set(bare, value);
    }
  }
  const plain = Object.entries(secrets).filter(([key]) => !key.startsWith(keyPrefix) && !found.has(key));
  return Object.fromEntries([...plain, ...found]);
}

/** Names and IPv4 addresses (RFC 1123, plus underscores). The first character cannot begin an option. */
export const hostForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/;

/** Whether a text contains a line break or another control character. */
export const holdsControl = (text: string): boolean =>
  [...text].some(character => character < " " || character === "\x7f");

type ServerRequest = Pick<AttachRequest, "volumeId" | "context">;

const invalid = ({ volumeId }: ServerRequest, what: string): CsiError =>
  new CsiError("invalid-argument", `volume "${volumeId}": ${what}`);

/** Reads the context of a volume on a disk. What it throws is "invalid-argument" and names the volume. */
export function contextReader(context: VolumeContext, volumeId: string) {
  return {
    invalid: (what: string): CsiError => invalid({ volumeId, context }, what),
    /** The value of a key in this form, `usual` without one. Throws that it is not `what`. */
    value(key: string, form: RegExp, what: string, usual = ""): string {
      const value = context[key] || usual;
      if (form.test(value)) return value;
      throw invalid({ volumeId, context }, `${key} ${JSON.stringify(value.slice(0, 250))} is not ${what}`);
    },
    /** The addresses in these keys, separated by commas. */
    addresses: (...keys: readonly string[]): readonly string[] =>
      keys
        .flatMap(key => (context[key] ?? "").split(","))
        .map(text => text.trim())
        .filter(text => text !== ""),
  };
}

/** The address without the zone of a link-local one ("fe80::1%eth0"). */
const withoutZone = (address: string): string => address.replace(/%[A-Za-z0-9._-]{1,15}$/, "");

/** A server as written before ":" or after "//": IPv6 addresses in brackets (RFC 3986). Undefined for anything else. */
function serverName(text: string): string | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  if (isIPv6(withoutZone(bare))) return `[${bare}]`;
  return hostForm.test(text) ? text : undefined;
}

/** The servers of a volume: `server` of its context, separated by commas. Throws "invalid-argument". */
export function serversOf(wanted: ServerRequest): readonly [string, ...string[]] {
  const given = wanted.context["server"] ?? "";
  const texts = given.split(",").map(text => text.trim());
  const [first, ...more] = texts.map(serverName);
  const rest = more.filter(text => text !== undefined);
  if (first !== undefined && rest.length === more.length) return [first, ...rest];
  const message = given ? `server ${JSON.stringify(given.slice(0, 200))} is not a server address` : "server is missing";
  throw invalid(wanted, message);
}

/** The storage of a share: its servers, of which at least one must listen on `port`. Throws "invalid-argument". */
export function storageOfShare(protocol: string, port: number, context: VolumeContext): StorageAddresses {
  const servers = serversOf({ volumeId: "", context });
  const addresses = servers.map(server => ({ host: server.replace(/^\[|\]$/g, ""), port }));
  return { name: `${protocol} ${servers.join(",")}`, addresses };
}

/** `share` of the volume's context, unchanged. Throws "invalid-argument" for control characters or "..". */
export function shareOf(wanted: AttachRequest): string {
  const share = wanted.context["share"] ?? "";
  const shown = JSON.stringify(share.slice(0, 200));
  if (share === "") throw invalid(wanted, "share is missing");
  if (holdsControl(share)) throw invalid(wanted, `share ${shown} contains a control character`);
  if (share.split(/[/\\]/).includes("..")) throw invalid(wanted, `share ${shown} contains ".."`);
  return share;
}
