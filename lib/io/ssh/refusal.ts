import { masked } from "../../core/mask.ts";
import { type SshSettings, secretsOf } from "./settings.ts";

/** Messages of the client when a login fails, and what to do about them. */
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
  [/Connection refused/, "connection refused at this port; check host and port, and whether sshd runs"],
  [/Could not resolve hostname/, "cannot resolve the host name"],
  [/timed out|Timeout/i, "no answer; check host and port, and firewalls in between"],
  [/No route to host|Network is unreachable/, "no route to host"],
  [/no matching .* found/i, "client and server have no algorithm in common; see algorithms"],
];

/** The error of a failed login: what to do, and the last line that the client wrote. */
export function refusal(settings: SshSettings, messages: string, error: unknown): Error {
  const secrets = secretsOf(settings);
  const lines = messages.split(/[\r\n]+/).filter(line => line.trim() !== "" && !/^@+|^debug/.test(line));
  const reason = error instanceof Error ? error.message : String(error);
  const advice = known.find(([words]) => words.test(messages))?.[1];
  const said = masked(lines.at(-1) ?? "", secrets).slice(0, 300);
  return new Error(["cannot log in to the host", advice, said, masked(reason, secrets)].filter(Boolean).join(": "), {
    cause: error,
  });
}
