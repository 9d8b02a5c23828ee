import { createHash } from "node:crypto";
import { CsiError } from "../../core/errors.ts";
import { type HttpAddress, type HttpSettings, httpSettings } from "../../io/dial.ts";

/** `httpConnection` of a connection file. */
export interface HttpConnection extends HttpAddress {
  readonly apiKey?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly failoverHosts?: readonly string[] | undefined;
}

/** How csimux logs in. */
export type Credentials =
  | { readonly kind: "key"; readonly key: string; readonly user: string | undefined }
  | { readonly kind: "password"; readonly user: string; readonly password: string };

/** A TrueNAS system and the credentials for it. */
export interface Server {
  readonly http: HttpSettings;
  readonly credentials: Credentials;
  /** Other hosts that may get the credentials, if the standby controller of a pair names one of them as the active one. */
  readonly failoverHosts: readonly string[];
}

/** The protocol; if it is not given, it follows from the port: "80" in it means http, then "443" https, else http. */
const protocolOf = ({ protocol, port }: Pick<HttpConnection, "protocol" | "port">): "http" | "https" => {
  if (protocol) return protocol;
  const text = String(port ?? "");
  return text.includes("80") || !text.includes("443") ? "http" : "https";
};

const loopback = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[?::1\]?)$/i;

/** Why an API key must not be sent with these settings, or undefined. TrueNAS 25.04 and newer revoke a key that arrives unencrypted. */
export function keyInTheOpen(
  connection: Pick<HttpConnection, "protocol" | "port" | "host" | "apiKey">,
): string | undefined {
  if (!connection.apiKey || protocolOf(connection) === "https" || loopback.test(connection.host)) return undefined;
  return 'an API key is never sent unencrypted: TrueNAS 25.04 and newer revoke it for good; write "protocol: https" and the port of https (443), or log in with "username" and "password" instead of "apiKey"';
}

/** The server that a connection file describes. Throws "failed-precondition" if a key would be sent unencrypted. */
export function serverOf(connection: HttpConnection): Server {
  const refused = keyInTheOpen(connection);
  if (refused !== undefined) throw new CsiError("failed-precondition", refused);
  const { apiKey, username, password, failoverHosts = [] } = connection;
  const protocol = protocolOf(connection);
  const http = httpSettings(connection, protocol, protocol === "https" ? 443 : 80);
  if (apiKey) return { http, failoverHosts, credentials: { kind: "key", key: apiKey, user: username || undefined } };
  return { http, failoverHosts, credentials: { kind: "password", user: username ?? "", password: password ?? "" } };
}

/** A key that is equal for servers that can share a client, and from which the credentials cannot be derived. */
export const serverKey = (server: Server): string =>
  createHash("sha256").update(JSON.stringify(server)).digest("base64url");

/** The texts that must not appear in logs and messages. */
export const secretsOf = ({ credentials }: Server): readonly string[] =>
  credentials.kind === "key"
    ? [credentials.key, credentials.key.replace(/^[0-9]+-/, "")]
    : [credentials.password, Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64")];
