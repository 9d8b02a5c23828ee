import { readFileSync } from "node:fs";

/**
 * Root of the machine, not only of a user namespace, where mounts that came along keep their flags and other users do not exist
 * (user_namespaces(7)).
 */
export const isHostRoot =
  process.getuid?.() === 0 && /^\s*0\s+0\s+4294967295$/m.test(readFileSync("/proc/self/uid_map", "utf8"));
