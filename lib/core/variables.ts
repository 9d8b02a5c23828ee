/** What changes which code a program runs, not how it works (ld.so(8), and the shells that a program may start). */
const ofLoader = /^(?:LD_.*|PATH|GCONV_PATH|BASH_ENV|ENV|IFS|SHELLOPTS|NODE_OPTIONS|PYTHON.*|PERL.*)$/;

/** Whether a class or a volume may set an environment variable of this name for the program that mounts it. */
export const isVariable = (name: string): boolean =>
  /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !ofLoader.test(name);

/** Whether the value of an environment variable of this name is a secret, as far as its name tells. */
export const isSecretVariable = (name: string): boolean =>
  /KEY|SECRET|PASS|LICEN[CS]E|TOKEN|CREDENTIAL/i.test(name) && !/FILE$|PATH$/i.test(name);

/** The variables among keys such as `env.ENDPOINT`, by their bare names. */
export const variablesOf = (keys: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(keys).flatMap(([key, value]) => (key.startsWith("env.") ? [[key.slice("env.".length), value]] : [])),
  );
