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
const maxAnswerBytes = 4 << 20;

/**
 * Reads the labels of a node. Throws "unavailable" if the API cannot be reached or fails, "failed-precondition" if the
 * service account is missing or may not read nodes, or if the node does not exist.
 */
export async function nodeLabels(name: string, access: ClusterAccess): Promise<Readonly<Record<string, string>>> {
  if (!isNodeName(name))
    throw new CsiError("failed-precondition", `${JSON.stringify(name.slice(0, 253))} is not a valid node name`);
  const [ca, token] = await Promise.all([credential(access, "ca.crt"), credential(access, "token")]);
  const { status, body } = await get(`/api/v1/nodes/${name}`, ca, token, access);
  if (status === 200) return labelsIn(body, name);
  throw refusal(status, name);
}

async function credential({ folder }: ClusterAccess, file: string): Promise<string> {
  const text = (await readSmallFile(`${folder}/${file}`, maxCredentialBytes))?.trim();
  if (text) return text;
  const message = `${folder}/${file} is missing: reading node labels needs the pod's service account (automountServiceAccountToken)`;
  throw new CsiError("failed-precondition", message);
}

async function get(
  path: string,
  ca: string,
  token: string,
  { host, port, timeoutMs }: ClusterAccess,
): Promise<HttpAnswer> {
  const headers = {
    Authorization: `Bearer ${token}`,
    // Metadata only; the whole object lists every image on the node.
    Accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json",
  };
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
