/** The folders of programs on common distributions, as PATH has them; the last one is NixOS's. */
export const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

/**
 * What becomes of a variable that tells democratic-csi how to find iscsiadm on a node. "needless": csimux finds the program itself;
 * "elsewhere": the program is in none of the usual folders. Undefined for any other variable.
 */
export function iscsiadmVariable(name: string, value: string): "needless" | "elsewhere" | undefined {
  if (!/^ISCSIADM_HOST_(?:STRATEGY|PATH)$/.test(name)) return undefined;
  const folder = value.slice(0, value.lastIndexOf("/"));
  const isElsewhere = name.endsWith("PATH") && folder !== "" && !hostPath.split(":").includes(folder);
  return isElsewhere ? "elsewhere" : "needless";
}
