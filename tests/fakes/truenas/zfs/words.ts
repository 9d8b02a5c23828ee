/** What both renames say without "force" (rename in plugins/pool_/dataset.py and snapshot.py of TS-25.10.6 and TS-26.0.0-BETA.3). */
export const noSafetyChecks =
  "No safety checks are performed when renaming ZFS resources; this may break existing usages. If you understand the risks, please set" +
  " force and proceed.";
