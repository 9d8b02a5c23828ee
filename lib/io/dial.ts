import { connect, connect as connectPlain, isIP, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { Code } from "../core/errors.ts";
import { hostNames } from "./host-names.ts";

/** The address of an HTTP server and how to authenticate it. */
export interface HttpSettings {
  readonly protocol: "http" | "https";
  readonly host: string;
  readonly port: number;
  /** Certificates in PEM form to trust instead of the system's own. */
  readonly ca: string | undefined;
  /**
   * SHA-256 of the only accepted certificate, in hexadecimal with or without colons; no other property of it is
   * checked.
   */
  readonly fingerprint: string | undefined;
  /** Accept any certificate. */
  readonly allowInsecure: boolean;
}

/** The keys of `httpConnection` in a connection file that address a server. */
export interface HttpAddress {
  readonly protocol?: "http" | "https" | undefined;
  readonly host: string;
  readonly port?: number | undefined;
  readonly allowInsecure: boolean;
  readonly ca?: string | undefined;
  readonly fingerprint?: string | undefined;
}

/** The settings for an address of this protocol, whose port defaults to `port`. An empty text counts as absent. */
export const httpSettings = (address: HttpAddress, protocol: "http" | "https", port: number): HttpSettings => ({
  protocol,
  host: address.host,
  port: address.port ?? port,
  ca: address.ca || undefined,
  fingerprint: address.fingerprint || undefined,
  allowInsecure: address.allowInsecure,
});

/**
 * Why a request got no answer. Only "lost" and "timeout" may have had an effect on the server: the request was sent,
 * but its outcome is unknown.
 */
export type HttpFailure = "unreachable" | "certificate" | "timeout" | "cancelled" | "lost" | "too-long" | "refused";

/** The status code for each failure. A certificate may be replaced and a server restarted, so only "too-long" is final. */
export const httpCodes: Readonly<Record<HttpFailure, Code>> = {
  unreachable: "unavailable",
  certificate: "unavailable",
  timeout: "deadline-exceeded",
  cancelled: "deadline-exceeded",
  lost: "unavailable",
  "too-long": "failed-precondition",
  refused: "unavailable",
};

/** A request without an answer. The message names the server and contains no secret. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly failure: HttpFailure;
  constructor(where: string, failure: HttpFailure, reason: string, options?: { cause?: unknown }) {
    super(`${where}: ${reason}`, options);
    this.failure = failure;
  }
}

/** "https://nas:443", for logs and errors. */
export const originOf = ({ protocol, host, port }: HttpSettings): string =>
  `${protocol}://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;

/** Time limit for connecting and the TLS handshake together, in milliseconds. */
const handshakeMs = 10_000;

const bare = (host: string): string => host.replace(/^\[|\]$/g, "");
const digits = (fingerprint: string): string => fingerprint.replaceAll(":", "").toUpperCase();

/**
 * Opens a connection to the server; with TLS, the handshake is done and the certificate accepted. Requests HTTP/1.1 by
 * ALPN (RFC 7301): over HTTP/2 a connection cannot become a WebSocket. Throws HttpError "unreachable", "certificate",
 * "timeout" or "cancelled".
 */
export function dial(settings: HttpSettings, signal: AbortSignal): Promise<Socket> {
  const where = originOf(settings);
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(new HttpError(where, "cancelled", "the call has ended"));
    const socket = settings.protocol === "https" ? encrypted(settings) : plain(settings);
    const settle = (error?: HttpError) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", cancelled);
      socket.removeListener("error", failed);
      if (!error) return resolve(socket);
      // Further errors have no listener.
      socket.on("error", () => undefined);
      socket.destroy();
      reject(error);
    };
    const cancelled = () => settle(new HttpError(where, "cancelled", "the call has ended"));
    const failed = (cause: Error) => settle(refusal(where, cause));
    const late = () => settle(new HttpError(where, "timeout", `no connection within ${handshakeMs} ms`));
    const timer = setTimeout(late, handshakeMs);
    signal.addEventListener("abort", cancelled, { once: true });
    socket.once("error", failed);
    socket.once(settings.protocol === "https" ? "secureConnect" : "connect", () =>
      settle(settings.protocol === "https" ? wrongCertificate(settings, socket as TLSSocket) : undefined),
    );
  });
}

const plain = ({ host, port }: HttpSettings): Socket =>
  connectPlain({ host: bare(host), port, lookup: hostNames.lookup });

const encrypted = ({ host, port, ca, fingerprint, allowInsecure }: HttpSettings): Socket =>
  connectTls({
    host: bare(host),
    port,
    lookup: hostNames.lookup,
    // An IP address is not a valid server name (RFC 6066, 3).
    ...(isIP(bare(host)) === 0 ? { servername: bare(host) } : {}),
    ...(ca === undefined ? {} : { ca }),
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: fingerprint === undefined && !allowInsecure,
  });

function wrongCertificate(settings: HttpSettings, socket: TLSSocket): HttpError | undefined {
  if (settings.fingerprint === undefined) return undefined;
  const seen = socket.getPeerCertificate().fingerprint256 ?? "";
  if (digits(seen) === digits(settings.fingerprint)) return undefined;
  const message = `the server's certificate has the fingerprint ${seen}, not the pinned one`;
  return new HttpError(originOf(settings), "certificate", message);
}

/** Error codes of OpenSSL's verification and of node:tls's check of the name. */
const certificateCodes =
  /^(?:CERT_|ERR_TLS_CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_|ERROR_IN_CERT)/;

function refusal(where: string, cause: Error & { readonly code?: unknown }): HttpError {
  const code = typeof cause.code === "string" ? cause.code : "";
  const reason = cause.message === "" ? code : cause.message;
  if (certificateCodes.test(code)) {
    const advice = "give its authority (ca), pin it (fingerprint), or accept any certificate (allowInsecure)";
    return new HttpError(where, "certificate", `the server's certificate is not trusted: ${reason}; ${advice}`, {
      cause,
    });
  }
  if (/WRONG_VERSION_NUMBER/.test(`${code} ${reason}`))
    return new HttpError(where, "unreachable", "the server does not speak TLS on this port; is it the http port?", {
      cause,
    });
  return new HttpError(where, "unreachable", reason, { cause });
}

/** The time limit for a TCP connection, in milliseconds: allows for the loss of two packets at its start. */
const answerMs = 4_000;

/** Whether a server accepts a TCP connection, whatever protocol it speaks. */
export type Answers = (host: string, port: number, signal: AbortSignal) => Promise<boolean>;

/** Connects from this process and sends nothing. Also false if the signal aborts. */
export const answersTcp: Answers = (host, port, signal) =>
  new Promise(resolve => {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const socket = connect({ host, port, lookup: hostNames.lookup, signal: ended });
    const end = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once("connect", () => end(true));
    socket.once("error", () => end(false));
    socket.once("close", () => end(false));
  });
