import { messageOf } from "../../core/errors.ts";
import { masked } from "../../core/secrets.ts";
import { type SshSettings, secretsOf } from "./settings.ts";

const loginRefused = /Permission denied|Too many authentication failures/;

/** A failed login. */
export class LoginFailed extends Error {
  override readonly name = "LoginFailed";
  /** The host does not accept the account, its key or its password. */
  readonly isRefused: boolean;
  constructor(message: string, isRefused: boolean, options?: { cause?: unknown }) {
    super(message, options);
    this.isRefused = isRefused;
  }
}

/** Messages of the client when a login fails, and what to do about them. */
const known: readonly (readonly [RegExp, string])[] = [
  [
    /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No .* host key is known/i,
    "its host key is not the expected one; compare it with ssh-keyscan, then correct hostKey or knownHosts, or remove the key that csimux kept (known-hosts in its state folder)",
  ],
  [loginRefused, "it refuses the login; check username, key and password"],
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
export function refusal(settings: SshSettings, messages: string, error: unknown): LoginFailed {
  const secrets = secretsOf(settings);
  const lines = messages.split(/[\r\n]+/).filter(line => line.trim() !== "" && !/^@+|^debug/.test(line));
  const reason = messageOf(error);
  const found = known.find(([words]) => words.test(messages));
  const said = masked(lines.at(-1) ?? "", secrets).slice(0, 300);
  const text = ["cannot log in to the host", found?.[1], said, masked(reason, secrets)].filter(Boolean).join(": ");
  return new LoginFailed(text, found?.[0] === loginRefused, { cause: error });
}
