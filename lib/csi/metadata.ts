import { Metadata } from "@grpc/grpc-js";

/** Converts the request headers of a grpc-js call for Connect handlers; binary values stay base64. */
export function toHeaders(metadata: Metadata): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(metadata.toHttp2Headers())) {
    if (values === undefined || name.startsWith(":")) continue;
    for (const value of Array.isArray(values) ? values : [values]) headers.append(name, String(value));
  }
  return headers;
}

/**
 * Converts a handler's headers to grpc-js metadata; names ending in "-bin" hold base64, several values separated by
 * commas.
 */
export function toMetadata(headers: Headers): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of headers) {
    if (!name.endsWith("-bin")) metadata.add(name, value);
    else for (const part of value.split(",")) metadata.add(name, Buffer.from(part.trim(), "base64"));
  }
  return metadata;
}
