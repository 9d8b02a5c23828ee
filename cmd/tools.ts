const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The environment that external tools get: where programs are, and nothing that may hold a secret. */
export const toolEnvironment = (
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> => ({
  PATH: env["PATH"] || defaultPath,
  HOME: env["HOME"] || "/root",
});
