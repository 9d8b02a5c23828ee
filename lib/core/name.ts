import { createHash } from "node:crypto";

const plain = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/**
 * The name of an object on a storage system for a name chosen by the caller: the same text if it is plain and short
 * enough, otherwise its readable head, a dash and 20 hex digits of its SHA-256. The same input always gives the same
 * output. Plain: letters, digits, "_" and "-", starting with a letter or digit. `maxBytes` must be at least 24.
 */
export function backendName(name: string, maxBytes: number): string {
  if (plain.test(name) && name.length <= maxBytes) return name;
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 20);
  const head = name
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^[-_]+/, "")
    .slice(0, maxBytes - 21);
  return head === "" ? digest : `${head}-${digest}`;
}

/**
 * Whether a text can be a node name: a DNS subdomain (Kubernetes "Object Names and IDs"; RFC 1123), so never a path.
 */
export const isNodeName = (text: string): boolean => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text);
