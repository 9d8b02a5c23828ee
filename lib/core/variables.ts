/**
 * The variables that ObjectiveFS documents for its mounts (user guide, "Environment Variables"), except those that name
 * a file, a folder or a proxy. Any other variable may change which code a program runs or whom it trusts (ld.so(8),
 * openssl(1), libcurl-env(3)).
 */
const ofObjectivefs: ReadonlySet<string> = new Set([
  ...["OBJECTSTORE", "ENDPOINT", "REGION", "ACCESS_KEY", "SECRET_KEY", "SESSION_TOKEN"],
  ...["OBJECTIVEFS_LICENSE", "OBJECTIVEFS_PASSPHRASE", "CACHESIZE", "DISKCACHE_SIZE", "IDMAP"],
  ...["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"],
  ...["AWS_SERVER_SIDE_ENCRYPTION", "AWS_TRANSFER_ACCELERATION"],
]);

/** Whether a class, a volume or a secret may set an environment variable of this name for mount.objectivefs. */
export const isVariable = (name: string): boolean => ofObjectivefs.has(name);

/** Whether the value of this environment variable is a secret, judging by its name. */
export const isSecretVariable = (name: string): boolean =>
  /KEY|SECRET|PASS|LICEN[CS]E|TOKEN|CREDENTIAL/i.test(name) && !/FILE$|PATH$/i.test(name);

/** The variables in keys such as `env.ENDPOINT`, with the prefix removed. */
export const variablesOf = (keys: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(keys).flatMap(([key, value]) => (key.startsWith("env.") ? [[key.slice("env.".length), value]] : [])),
  );
