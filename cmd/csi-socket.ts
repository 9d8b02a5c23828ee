import { CsiError } from "../lib/core/errors.ts";
import { type Endpoint, parseEndpoint } from "../lib/csi/endpoint.ts";
import { UsageError } from "./terminal/terminal.ts";

function endpointOf(text: string): Endpoint {
  try {
    return parseEndpoint(text);
  } catch (error) {
    throw error instanceof CsiError ? new UsageError(error.message) : error;
  }
}

/** The path of the CSI socket that an endpoint names. Throws UsageError; `more` is said of an endpoint without one. */
export function csiSocketOf(text: string, more: string): string {
  const endpoint = endpointOf(text);
  if (endpoint.kind === "unix") return endpoint.path;
  throw new UsageError(`${text} is not a Unix socket${more}`);
}
