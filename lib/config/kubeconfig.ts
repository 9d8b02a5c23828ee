import { CsiError } from "../core/errors.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYamlDocuments } from "../yaml/parse.ts";

/** A PEM text or a token: the text itself, or the path of a file with it. */
export type Given = { readonly text: string } | { readonly path: string };

/**
 * How kubectl would reach a cluster (client.authentication.k8s.io and Config of kubectl). Paths are as written in the
 * file.
 */
export interface Kubeconfig {
  readonly server: URL;
  readonly ca: Given | undefined;
  readonly allowInsecure: boolean;
  readonly serverName: string | undefined;
  readonly token: Given | undefined;
  readonly client: { readonly cert: Given; readonly key: Given } | undefined;
}

/**
 * Reads kubectl's configuration: the cluster and the user of its current context. Throws "invalid-argument" with what
 * is missing, and for a user that logs in through another program.
 */
export function readKubeconfig(file: string, text: string): Kubeconfig {
  const [source] = parseYamlDocuments(file, text, manifestBudget);
  const broken = source?.diagnostics.find(({ blocks }) => blocks);
  if (broken) throw bad(`${file}:${broken.line}:${broken.column}`, broken.message);
  const value = source?.value;
  if (!isMapping(value)) throw bad(file, "not a kubectl configuration");
  const name = textIn(value, "current-context");
  if (name === undefined) throw bad(file, "it has no current-context; choose one with kubectl config use-context");
  const context = entry(file, value, "contexts", "context", name);
  const cluster = entry(file, value, "clusters", "cluster", textIn(context, "cluster") ?? "");
  const user = textIn(context, "user");
  const login = user === undefined ? {} : entry(file, value, "users", "user", user);
  return { ...clusterOf(file, cluster), ...loginOf(file, login) };
}

function clusterOf(file: string, cluster: Mapping) {
  const server = textIn(cluster, "server") ?? "";
  if (!URL.canParse(server) || !/^https?:/.test(server)) throw bad(file, `the server "${server}" is not a URL`);
  if (cluster["proxy-url"] !== undefined) throw bad(file, `the cluster is behind a proxy (proxy-url)${instead}`);
  return {
    server: new URL(server),
    ca: given(file, cluster, "certificate-authority"),
    allowInsecure: cluster["insecure-skip-tls-verify"] === true,
    serverName: textIn(cluster, "tls-server-name"),
  };
}

function loginOf(file: string, user: Mapping) {
  const program = ["exec", "auth-provider"].find(key => user[key] !== undefined);
  if (program !== undefined)
    throw bad(file, `its user logs in through another program (${program}), which csimux does not start${instead}`);
  if (textIn(user, "username") !== undefined)
    throw bad(file, `its user logs in with a password; Kubernetes no longer supports basic authentication${instead}`);
  const token = textIn(user, "token");
  const path = textIn(user, "tokenFile");
  const cert = given(file, user, "client-certificate");
  const key = given(file, user, "client-key");
  if ((cert === undefined) !== (key === undefined))
    throw bad(file, "client-certificate and client-key belong together");
  return {
    token: path === undefined ? token && { text: token } : { path },
    client: cert && key && { cert, key },
  } as Pick<Kubeconfig, "token" | "client">;
}

const instead = "; give --nodes a file with the output of kubectl get nodes -o json instead";

/** The value of `key-data` (base64), or else the path in `key`. */
function given(file: string, mapping: Mapping, key: string): Given | undefined {
  const data = textIn(mapping, `${key}-data`);
  const path = textIn(mapping, key);
  if (data === undefined) return path === undefined ? undefined : { path };
  const text = Buffer.from(data, "base64").toString("utf8");
  if (!text.includes("-----BEGIN ")) throw bad(file, `${key}-data is not a PEM text in base64`);
  return { text };
}

function entry(file: string, value: Mapping, list: string, kind: string, name: string): Mapping {
  const all: unknown = value[list];
  const found = Array.isArray(all) ? all.find(each => isMapping(each) && each["name"] === name) : undefined;
  const content: unknown = isMapping(found) ? found[kind] : undefined;
  if (isMapping(content)) return content;
  throw bad(file, `it has no ${kind} "${name}" among its ${list}`);
}

function textIn(mapping: Mapping, key: string): string | undefined {
  const value = mapping[key];
  return typeof value === "string" && value !== "" ? value : undefined;
}

const bad = (file: string, why: string): CsiError => new CsiError("invalid-argument", `${file}: ${why}`);
