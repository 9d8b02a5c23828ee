/** The `sshConnection` of a connection file. Durations are milliseconds. */
export interface SshSettings {
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly password?: string | undefined;
  /** Text of the key, PEM or OpenSSH. */
  readonly privateKey?: string | undefined;
  readonly passphrase?: string | undefined;
  /** Path of an agent's socket. */
  readonly agent?: string | undefined;
  /** The only host key to accept, as ssh-keyscan prints it, with or without the host's name. */
  readonly hostKey?: string | undefined;
  readonly knownHosts?: string | undefined;
  readonly hostKeyPolicy?: "strict" | "accept-new" | "off" | undefined;
  readonly keepaliveInterval: number;
  readonly keepaliveCountMax?: number | undefined;
  readonly readyTimeout: number;
  readonly forceIPv4: boolean;
  readonly forceIPv6: boolean;
  readonly localAddress?: string | undefined;
  readonly algorithms?: Readonly<Record<string, unknown>> | undefined;
  readonly debug: boolean;
}

/** "ssh root@nas", for logs and errors. */
export const whereOf = ({ username, host, port }: SshSettings): string =>
  `ssh ${username}@${host}${port === 22 ? "" : `:${port}`}`;

/** All secrets of the settings, to keep them out of messages. */
export const secretsOf = ({ password, passphrase }: SshSettings): readonly string[] =>
  [password, passphrase].filter(word => word !== undefined && word !== "") as readonly string[];
