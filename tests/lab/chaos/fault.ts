import { run } from "../run.ts";

/** A temporary fault of a node or its storage. */
export interface Fault {
  readonly name: string;
  /** The volume may fail during the fault and until it is staged again: data not on stable storage may be lost. */
  readonly hurts: boolean;
  begin(): Promise<unknown>;
  /** May be repeated. */
  end(): Promise<unknown>;
}

const shell = (script: string): Promise<string> => run(["sh", "-c", script]);

/** A storage fault that one shell command starts and another one ends. */
export const storageFault = (name: string, begin: string, end: string): Fault => ({
  name,
  hurts: true,
  begin: () => shell(begin),
  end: () => shell(end),
});

/** Drops packets for these TCP ports on arrival, in both directions: a sender notices an outgoing drop. */
export function cut(...ports: readonly number[]): Fault {
  const some = `{ ${ports.join(", ")} }`;
  const rules = ["dport", "sport"].map(side => `add rule inet chaos in tcp ${side} ${some} drop`);
  const chain = "add chain inet chaos in { type filter hook input priority 0; }";
  return storageFault(
    "packets are dropped",
    `printf '%s\\n' 'add table inet chaos' '${chain}' '${rules.join("' '")}' | nft -f -`,
    "nft delete table inet chaos 2>/dev/null || :",
  );
}
