import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";

/** The name under which tools reach the sidecar. */
export const service = "csimux-snapshot-metadata.storage.svc";

/** Makes the certificate of the service in a folder: tls.crt and tls.key, signed by an authority whose certificate is ca.crt. */
export function certificates(folder: string): void {
  const openssl = (...args: readonly string[]) => execFileSync("openssl", args, { cwd: folder, stdio: "ignore" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority", "-days", "2");
  const name = ["-subj", `/CN=${service}`, "-addext", `subjectAltName=DNS:${service}`];
  openssl("req", ...key, "-keyout", "tls.key", "-out", "tls.csr", ...name);
  const signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-days", "2", "-copy_extensions", "copy"];
  openssl("x509", "-req", "-in", "tls.csr", "-out", "tls.crt", ...signed);
}

interface Described {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly address: string; readonly audience: string; readonly caCert: string };
}

/** The SnapshotMetadataService that the head of the component tells its user to create, with the authority of a folder. */
export async function described(manifests: string, folder: string): Promise<Described> {
  const text = await readFile(join(manifests, "snapshot-metadata/kustomization.yaml"), "utf8");
  const lines = text.split("\n").filter(line => line.startsWith("#   "));
  const sample = parse(lines.map(line => line.slice(4)).join("\n")) as Described;
  const caCert = (await readFile(join(folder, "ca.crt"))).toString("base64");
  return { ...sample, spec: { ...sample.spec, caCert } };
}
