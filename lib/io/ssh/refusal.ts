import { masked } from "../../core/mask.ts";
import { type SshSettings, secretsOf } from "./settings.ts";

/** What the client writes when a login fails, and what to do about it. */
const known: readonly (readonly [RegExp, string])[] = [
  [
    /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No .* host key is known/i,
    "its host key is not the expected one; compare it with ssh-keyscan, then correct hostKey or knownHosts, or remove the key that csimux kept (known-hosts in its state folder)",
  ],
  [/Permission denied|Too many authentication failures/, "it refuses the login; check username, key and password"],
  [
    /Load key .*(?:invalid format|error in libcrypto|incorrect passphrase)/,
    "the private key cannot be read; check its text and the passphrase",
  ],
  [/Connection refused/, "nobody listens at this port; check host and port, and whether sshd runs"],
  [/Could not resolve hostname/, "the name of the host is not known"],
  [/timed out|Timeout/i, "no answer; check host and port, and what lies in between"],
  [/No route to host|Network is unreachable/, "there is no way to it from here"],
  [/no matching .* found/i, "client and server have no algorithm in common; see algorithms"],
];

/** The error of a login that failed: what to do, and the last line that the client wrote. */
export function refusal(settings: SshSettings, messages: string, error: unknown): Error {
  const secrets = secretsOf(settings);
  const lines = messages.split(/[\r\n]+/).filter(line => line.trim() !== "" && !/^@+|^debug/.test(line));
  const reason = error instanceof Error ? error.message : String(error);
  const advice = known.find(([words]) => words.test(messages))?.[1];
  const said = masked(lines.at(-1) ?? "", secrets).slice(0, 300);
  return new Error(["the host cannot be used", advice, said, masked(reason, secrets)].filter(Boolean).join(": "), {
    cause: error,
  });
}
