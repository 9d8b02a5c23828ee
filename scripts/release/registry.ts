import { spawn } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { createServer } from "node:tls";
import { goProgram } from "../cluster/tools.ts";
import { root, spawned, tool } from "../spawned.ts";

// A registry for tests: crane's, which speaks no TLS, behind a certificate of its own.

/** The certificate of the registry in a folder, which its clients must trust (SSL_CERT_FILE). */
export const certificateIn = (folder: string): string => join(folder, "tls.crt");

const keyIn = (folder: string): string => join(folder, "tls.key");

/** Makes a certificate for an address in a folder. Answers the command that then serves a registry there, with its blobs in the folder. */
export async function registryCommand(folder: string, address: string, port: number): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true });
  const files = ["-keyout", keyIn(folder), "-out", certificateIn(folder)];
  const about = ["-days", "2", "-subj", "/CN=registry", "-addext", `subjectAltName=IP:${address}`];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const { code, stderr } = await spawned(["openssl", "req", "-x509", ...key, ...files, ...about]);
  if (code !== 0) throw new Error(stderr.trim());
  return [tool("bun"), `${root}/scripts/release/registry.ts`, folder, address, String(port)];
}

async function serve(folder: string, address: string, port: number): Promise<void> {
  const [key, cert] = await Promise.all([readFile(keyIn(folder)), readFile(certificateIn(folder))]);
  const args = ["registry", "serve", "--address", "127.0.0.1:0", "--disk", folder];
  const registry = spawn(goProgram("crane"), args, { stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => registry.kill());
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(0));
  let plain = 0;
  const server = createServer({ key, cert }, client => {
    const behind = connect(plain, "127.0.0.1");
    client.pipe(behind).pipe(client);
    client.on("error", () => behind.destroy());
    behind.on("error", () => client.destroy());
  });
  registry.stderr.on("data", (said: Buffer) => {
    const found = /serving on port (\d+)/.exec(String(said));
    if (found === null) return;
    plain = Number(found[1]);
    server.listen(port, address);
  });
}

if (import.meta.main) {
  const [folder = "", address = "", port = ""] = process.argv.slice(2);
  await serve(folder, address, Number(port));
}
