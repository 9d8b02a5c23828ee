import { CsiError } from "../core/errors.ts";
import { isNodeName } from "../core/name.ts";
import { type HttpAnswer, httpClient } from "./http.ts";
import { readSmallFile } from "./small-file.ts";

/** Access of a pod to the cluster's API with its service account. */
export interface ClusterAccess {
  /** KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. */
  readonly host: string;
  readonly port: number;
  /** Folder with `ca.crt` and `token`; kubelet replaces the token every hour, so both are read at each call. */
  readonly folder: string;
  /** The limit for the whole request, in milliseconds. */
  readonly timeoutMs: number;
}

/** The folder where kubelet mounts a pod's service account. */
export const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

const maxCredentialBytes = 256 * 1024;
const maxAnswerBytes = 16 << 20;

/**
 * Reads the labels of a node. Throws "unavailable" if the API cannot be reached or fails, "failed-precondition" if the
 * service account is missing or may not read nodes, or if the node does not exist.
 */
export async function nodeLabels(name: string, access: ClusterAccess): Promise<Readonly<Record<string, string>>> {
  if (!isNodeName(name))
    throw new CsiError("failed-precondition", `${JSON.stringify(name.slice(0, 253))} is not a valid node name`);
  const [ca, token] = await Promise.all([credential(access, "ca.crt"), credential(access, "token")]);
  const { status, body } = await get(`/api/v1/nodes/${name}`, metadataOfOne, ca, token, access);
  if (status === 200) return labelsIn(body, name);
  throw refusal(status, name);
}

/**
 * How many objects one answer has: of whole ones so few that each may have 160 KiB, as with many labels and field managers. And the most
 * that are read.
 */
const pageSizes = { metadata: 500, whole: 100 };
const mostObjects = 20_000;

/**
 * Reads the objects of a collection, such as "/api/v1/nodes"; with `metadataOnly`, each has only its metadata. Throws
 * "unavailable" if the API cannot be reached or fails, or if there are too many, "failed-precondition" if the service account is missing or
 * may not list them.
 */
export async function listObjects(
  collection: string,
  metadataOnly: boolean,
  access: ClusterAccess,
): Promise<readonly unknown[]> {
  const [ca, token] = await Promise.all([credential(access, "ca.crt"), credential(access, "token")]);
  const accept = metadataOnly
    ? "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
    : "application/json";
  const objects: unknown[] = [];
  let next = "";
  do {
    const path = `${collection}?limit=${metadataOnly ? pageSizes.metadata : pageSizes.whole}${next && `&continue=${encodeURIComponent(next)}`}`;
    const { status, body } = await get(path, accept, ca, token, access);
    if (status === 401 || status === 403)
      throw new CsiError("failed-precondition", `the service account may not list ${collection} (HTTP ${status})`);
    const { items, continued } = status === 200 ? listIn(body) : {};
    if (!items) throw new CsiError("unavailable", `the cluster's API answered HTTP ${status} for ${collection}`);
    objects.push(...items);
    next = continued ?? "";
    if (next !== "" && objects.length >= mostObjects)
      throw new CsiError(
        "unavailable",
        `the cluster has more than ${mostObjects} objects in ${collection}; no more are read`,
      );
  } while (next !== "");
  return objects;
}

/** The items of a list, and the token of the next one; empty if the text is not a list. */
function listIn(body: string): { readonly items?: readonly unknown[]; readonly continued?: string | undefined } {
  try {
    const list: unknown = JSON.parse(body);
    const items = member(list, "items");
    const continued = member(member(list, "metadata"), "continue");
    return Array.isArray(items) ? { items, continued: typeof continued === "string" ? continued : undefined } : {};
  } catch {
    return {};
  }
}

async function credential({ folder }: ClusterAccess, file: string): Promise<string> {
  const text = (await readSmallFile(`${folder}/${file}`, maxCredentialBytes))?.trim();
  if (text) return text;
  const message = `${folder}/${file} is missing: reading the cluster's API needs the pod's service account (automountServiceAccountToken)`;
  throw new CsiError("failed-precondition", message);
}

/** Metadata only; the whole object of a node lists every image on it. */
const metadataOfOne = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

async function get(
  path: string,
  accept: string,
  ca: string,
  token: string,
  { host, port, timeoutMs }: ClusterAccess,
): Promise<HttpAnswer> {
  const headers = { Authorization: `Bearer ${token}`, Accept: accept };
  const client = httpClient({ protocol: "https", host, port, ca, fingerprint: undefined, allowInsecure: false });
  try {
    const request = { method: "GET", path, headers, timeoutMs, maxBytes: maxAnswerBytes } as const;
    return await client.send(request, new AbortController().signal);
  } catch (cause) {
    throw new CsiError("unavailable", `the cluster's API cannot be used: ${reasonOf(cause)}`, { cause });
  } finally {
    client.close();
  }
}

const reasonOf = (cause: unknown): string => (cause instanceof Error ? cause.message : "the connection failed");

function labelsIn(body: string, name: string): Readonly<Record<string, string>> {
  try {
    const node: unknown = JSON.parse(body);
    const labels = member(member(node, "metadata"), "labels") ?? {};
    if (member(member(node, "metadata"), "name") === name && typeof labels === "object")
      return Object.fromEntries(Object.entries(labels).filter(isText));
  } catch {
    // Not JSON; reported below.
  }
  throw new CsiError("unavailable", `the cluster's API did not answer with node "${name}"`);
}

const member = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && key in value ? (value as Record<string, unknown>)[key] : undefined;

const isText = (entry: [string, unknown]): entry is [string, string] => typeof entry[1] === "string";

function refusal(status: number, name: string): CsiError {
  if (status === 401 || status === 403) {
    const text = `the service account may not read node "${name}" (HTTP ${status}); its ClusterRole needs { apiGroups: [""], resources: [nodes], verbs: [get] }`;
    return new CsiError("failed-precondition", text);
  }
  if (status === 404)
    return new CsiError("failed-precondition", `the cluster has no node "${name}"; CSI_NODE_ID must be spec.nodeName`);
  return new CsiError("unavailable", `the cluster's API answered HTTP ${status} for node "${name}"`);
}
