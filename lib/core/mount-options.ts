/**
 * Options that mount(8) accepts for any file system, and also for a bind mount; all others are specific to a file
 * system.
 */
export const genericMountOptions: ReadonlySet<string> = new Set([
  "ro",
  "rw",
  "noatime",
  "atime",
  "nodiratime",
  "diratime",
  "relatime",
  "norelatime",
  "strictatime",
  "nodev",
  "dev",
  "nosuid",
  "suid",
  "noexec",
  "exec",
  "sync",
  "async",
  "dirsync",
  "nosymfollow",
  "bind",
  "rbind",
]);
