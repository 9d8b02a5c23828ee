import type { DsmServer } from "./client.ts";

/** `httpConnection` of a connection file. */
export interface HttpConnection {
  readonly protocol?: "http" | "https" | undefined;
  readonly host: string;
  readonly port?: number | undefined;
  readonly allowInsecure: boolean;
  readonly ca?: string | undefined;
  readonly fingerprint?: string | undefined;
  readonly username: string;
  readonly password: string;
  readonly session?: string | undefined;
  readonly serialize: boolean;
}

/** The DSM of a connection file. Without `protocol` the port says it: DSM speaks https on 5001. */
export function serverOf(connection: HttpConnection): DsmServer {
  const { host, port, allowInsecure, ca, fingerprint, username, password, session, serialize } = connection;
  const protocol = connection.protocol ?? (/443|5001/.test(String(port ?? "")) ? "https" : "http");
  return {
    http: {
      protocol,
      host,
      port: port ?? (protocol === "https" ? 5001 : 5000),
      ca: ca || undefined,
      fingerprint: fingerprint || undefined,
      allowInsecure,
    },
    username,
    password,
    session: session || undefined,
    serialize,
  };
}
