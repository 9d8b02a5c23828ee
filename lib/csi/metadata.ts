import { Metadata } from "@grpc/grpc-js";

/** The request headers of a grpc-js call in the form that Connect handlers expect; binary values stay base64. */
export function toHeaders(metadata: Metadata): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(metadata.toHttp2Headers())) {
    if (values === undefined || name.startsWith(":")) continue;
    for (const value of Array.isArray(values) ? values : [values]) headers.append(name, String(value));
  }
  return headers;
}

/** Headers of a handler as grpc-js metadata; names ending in "-bin" hold base64, several values joined by commas. */
export function toMetadata(headers: Headers): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of headers) {
    if (!name.endsWith("-bin")) metadata.add(name, value);
    else for (const part of value.split(",")) metadata.add(name, Buffer.from(part.trim(), "base64"));
  }
  return metadata;
}
