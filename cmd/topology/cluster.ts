import { dirname, resolve } from "node:path";
import { type Given, type Kubeconfig, readKubeconfig } from "../../lib/config/kubeconfig.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { type Http, httpClient } from "../../lib/io/http.ts";
import { readSmallFile } from "../../lib/io/small-file.ts";
import { UsageError } from "../terminal/usage-error.ts";

/** What a cluster says about itself, as JSON texts. */
export interface ClusterTexts {
  readonly nodes: string;
  readonly storageClasses: string;
}

const maxCredentialBytes = 1 << 20;
const timeoutMs = 20_000;

/** Asks a cluster for its nodes and classes, with the rights of kubectl's configuration. Throws UsageError. */
export async function askCluster(path: string, text: string): Promise<ClusterTexts> {
  const config = usable(() => readKubeconfig(path, text));
  const folder = dirname(resolve(path));
  const [ca, cert, key, token] = await Promise.all(
    [config.ca, config.client?.cert, config.client?.key, config.token].map(each => content(folder, each)),
  );
  const client = httpClient({
    ...where(config),
    ca,
    fingerprint: undefined,
    allowInsecure: config.allowInsecure,
    serverName: config.serverName,
    client: cert !== undefined && key !== undefined ? { cert, key } : undefined,
  });
  const base = config.server.pathname.replace(/\/$/, "");
  try {
    const [nodes, storageClasses] = await Promise.all(
      ["/api/v1/nodes", "/apis/storage.k8s.io/v1/storageclasses"].map(each => listed(client, base + each, token)),
    );
    return { nodes: nodes ?? "", storageClasses: storageClasses ?? "" };
  } finally {
    client.close();
  }
}

function where({ server }: Kubeconfig) {
  const protocol: "http" | "https" = server.protocol === "http:" ? "http" : "https";
  return { protocol, host: server.hostname, port: Number(server.port || (protocol === "http" ? 80 : 443)) };
}

async function content(folder: string, given: Given | undefined): Promise<string | undefined> {
  if (given === undefined || "text" in given) return given?.text;
  const path = resolve(folder, given.path);
  try {
    const text = (await readSmallFile(path, maxCredentialBytes))?.trim();
    if (text) return text;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    throw new UsageError(error.message);
  }
  throw new UsageError(`${path}, which the kubeconfig names, is missing or empty`);
}

async function listed(client: Http, path: string, token: string | undefined): Promise<string> {
  const headers = { Accept: "application/json", ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
  const asked = client.send({ method: "GET", path, headers, timeoutMs }, new AbortController().signal);
  const { status, body } = await asked.catch((cause: unknown) => {
    throw new UsageError(`the cluster cannot be asked: ${cause instanceof Error ? cause.message : String(cause)}`);
  });
  if (status === 200) return body;
  const right = status === 401 || status === 403 ? "; the user of the kubeconfig may not list them" : "";
  throw new UsageError(`the cluster answers HTTP ${status} for ${path}${right}`);
}

function usable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof CsiError ? new UsageError(error.message) : error;
  }
}
