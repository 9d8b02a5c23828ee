import { problem } from "../../schema/finding.ts";
import { type LintInput, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";

const group = ["iscsi", "shareStrategyTargetCli", "tpg"] as const;

/**
 * Credentials that no login is asked for: without `authentication` LIO lets everybody in, and targetcli switches it off in
 * every group that it makes. The connection is served all the same, as democratic-csi serves it.
 */
export function* chap({ connections }: LintInput): Iterable<DocumentFinding> {
  for (const { leaf, read } of connections) {
    const user = textAt(read.tidied, ...group, "auth", "userid") ?? "";
    const attributes = [...group, "attributes", "authentication"] as const;
    if (user === "" || textAt(read.tidied, ...attributes) === "1") continue;
    const message = "anybody may log in, although userid and password are given";
    yield { leaf, finding: problem("chap-not-asked-for", attributes, message, "set it to 1") };
  }
}
