import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** A certificate authority in a folder: `<name>.crt` and `<name>.key`. */
export function makeAuthority(folder: string, name: string): void {
  openssl(folder, ["req", "-x509", ...fresh, "-days", "2", "-subj", `/CN=${name}`, ...out(name)]);
}

/** A certificate for 127.0.0.1 that the authority signed, as paths of its files. */
export function makeServer(folder: string, authority: string): { readonly cert: string; readonly key: string } {
  writeFileSync(join(folder, "san"), "subjectAltName=IP:127.0.0.1\n");
  openssl(folder, ["req", ...fresh, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr"]);
  const signed = ["-CA", `${authority}.crt`, "-CAkey", `${authority}.key`, "-CAcreateserial", "-extfile", "san"];
  openssl(folder, ["x509", "-req", "-in", "server.csr", "-days", "2", ...signed, "-out", "server.crt"]);
  return { cert: join(folder, "server.crt"), key: join(folder, "server.key") };
}

const fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"] as const;
const out = (name: string) => ["-keyout", `${name}.key`, "-out", `${name}.crt`] as const;

function openssl(folder: string, args: readonly string[]): void {
  execFileSync("openssl", args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
}
