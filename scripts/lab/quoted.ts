/** An argument as a POSIX shell reads it: ssh joins its arguments and gives them to one. */
export const quoted = (argument: string): string =>
  /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
