/** The iSCSI initiator name in an initiatorname.iscsi (open-iscsi): the first InitiatorName line; "#" begins a comment. */
export function initiatorName(text: string): string | undefined {
  for (const line of text.split(/\r?\n/)) {
    const [, name] = /^\s*InitiatorName\s*=\s*(\S+)\s*$/.exec(line.replace(/#.*/, "")) ?? [];
    if (name !== undefined) return name;
  }
  return undefined;
}

/** The NQN in a hostnqn file (nvme-cli): its only line. */
export const hostNqn = (text: string): string | undefined => text.trim() || undefined;
