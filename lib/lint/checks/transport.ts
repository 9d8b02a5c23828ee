import { type SchemaFinding, warning } from "../../schema/finding.ts";
import { at, type ConnectionFile, type LintInput, mappingAt, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";

/** Rules about how connections reach their systems. */
export function* transport({ connections }: LintInput): Iterable<DocumentFinding> {
  for (const { leaf, read } of connections) {
    for (const finding of [...http(read), ...ssh(read)]) yield { leaf, finding };
  }
}

function* http({ tidied }: ConnectionFile["read"]): Iterable<SchemaFinding> {
  const section = mappingAt(tidied, "httpConnection");
  if (textAt(section, "host") === undefined) return;
  yield* otherPort(textAt(section, "protocol"), String(at(section, "port") ?? ""));
  if (textAt(section, "apiKey") && textAt(section, "password")) {
    const message = '"password" has no effect beside "apiKey"';
    yield warning("ignored-key", ["httpConnection", "password"], message, "remove one of the two", "key");
  }
  if (isPlain(textAt(section, "protocol"), textAt(section, "port") ?? "")) {
    const where = textAt(section, "protocol") === undefined ? [] : ["protocol"];
    // An API key over http is refused where the file is read.
    if (!textAt(section, "apiKey") && textAt(section, "password")) {
      const message = '"password" is sent unencrypted';
      yield warning(
        "credentials-over-http",
        ["httpConnection", ...where],
        message,
        'write "protocol: https" and the port of https',
      );
    }
  } else if (at(section, "allowInsecure") === true) {
    const message = "the server's certificate is not checked, so anybody on the way can read the credentials";
    yield warning(
      "certificate-unchecked",
      ["httpConnection", "allowInsecure"],
      message,
      "trust the server's own certificate instead: give it as `ca` or `caFile`, or pin it with `fingerprint`",
    );
  }
}

/** Where TrueNAS and DSM listen by default. */
const usualPorts: Readonly<Record<string, readonly string[]>> = { http: ["80", "5000"], https: ["443", "5001"] };

function* otherPort(protocol: string | undefined, port: string): Iterable<SchemaFinding> {
  const other = protocol === "http" ? "https" : "http";
  if (protocol === undefined || !usualPorts[other]?.includes(port)) return;
  const message = `port ${port} is usually that of ${other}, but "protocol" is ${protocol}`;
  const fix = other === "https" ? 'write "protocol: https"' : "write the port of https, 443 or 5001";
  yield warning("port-of-other-protocol", ["httpConnection", "port"], message, fix);
}

/** Without `protocol` the original guesses from the port: "80" in it means http, then "443" https, else http. */
const isPlain = (protocol: string | undefined, port: string): boolean =>
  protocol ? protocol === "http" : port.includes("80") || !port.includes("443");

function* ssh({ tidied, module }: ConnectionFile["read"]): Iterable<SchemaFinding> {
  const section = mappingAt(tidied, "sshConnection");
  if (textAt(section, "host") === undefined || !module) return;
  const fix = 'add "hostKey" with a line of `ssh-keyscan <host>` that you have checked';
  if (at(section, "hostKeyPolicy") === "off") {
    const message = "the host key of the server is not checked, so anybody on the way can take its place at any time";
    yield warning("host-key-unchecked", ["sshConnection", "hostKeyPolicy"], message, `remove the key, and ${fix}`);
    return;
  }
  if (["hostKey", "knownHosts", "hostKeyPolicy"].some(key => at(section, key) !== undefined)) return;
  const message =
    "the first host key that the server shows is trusted, so anybody who is in its place at that moment stays there";
  yield warning("host-key-unchecked", ["sshConnection"], message, fix, "key");
}
