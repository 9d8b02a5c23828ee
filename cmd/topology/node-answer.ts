import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { Segments } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { storageNames } from "../../lib/daemon/node-facts.ts";
import { evaluate, type RuleOutcome } from "../../lib/topology/evaluate.ts";
import type { NodeFacts } from "../../lib/topology/facts.ts";
import { encodeNodeId } from "../../lib/topology/node-id.ts";
import type { CompiledTopology } from "../../lib/topology/rules.ts";

/** What NodeGetInfo would answer on one node, and why. */
export interface NodeAnswer {
  /** Undefined if `failure` is set, or if a part of it is only known on the node itself. */
  readonly nodeId: string | undefined;
  readonly segments: Segments;
  readonly outcomes: readonly RuleOutcome[];
  readonly failure: CsiError | undefined;
}

/**
 * Evaluates one node. `topology` is undefined if the main file configures none. A `listed` node may lack its IQN and NQN: then the node id
 * is undefined.
 */
export async function report(
  { nodeId: settings }: ProxyConfig,
  topology: CompiledTopology | undefined,
  given: NodeFacts,
  listed: boolean,
): Promise<NodeAnswer> {
  const nodeName = given.nodeName ?? (settings.allowHostnameFallback ? given.hostname : undefined);
  const facts = { ...given, nodeName };
  const evaluation = topology && (await evaluate(topology, facts));
  const { segments = {}, outcomes = [], failure } = evaluation ?? {};
  if (failure) return { nodeId: undefined, segments, outcomes, failure };
  try {
    const { hostname } = facts;
    const identity = {
      ...(nodeName !== undefined && { nodeName }),
      ...(hostname !== undefined && { hostname }),
      ...(await storageNames(settings.parts, facts)),
    };
    const { iqn, nqn } = settings.parts;
    const unknown = listed && ((iqn && !("iqn" in identity)) || (nqn && !("nqn" in identity)));
    const nodeId = unknown ? undefined : encodeNodeId(identity, settings);
    return { nodeId, segments, outcomes, failure: undefined };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    return { nodeId: undefined, segments: {}, outcomes, failure: error };
  }
}

/** The code of a failure in output for programs, as gRPC spells it. */
export const codeName = ({ code }: CsiError): string => code.toUpperCase().replaceAll("-", "_");

/** The reason for a rule's result; a later rule with the same key may overrule one that matched. */
export function reasonOf(outcome: RuleOutcome, outcomes: readonly RuleOutcome[]): string {
  const last = outcomes.findLast(({ applied, rule }) => applied && rule.key === outcome.rule.key);
  if (!last || last === outcome) return outcome.reason;
  const overruled = `rule ${last.rule.index + 1} gives the key its value`;
  return outcome.applied ? `matched, but ${overruled}` : outcome.reason.replace("using the default", overruled);
}

/** Whether a matching rule with the same key overrules this rule's default. */
export const isOverruled = (outcome: RuleOutcome, outcomes: readonly RuleOutcome[]): boolean =>
  !outcome.applied && outcomes.some(({ applied, rule }) => applied && rule.key === outcome.rule.key);

/** The stable form for programs. */
export const reportData = ({ nodeId, segments, outcomes, failure }: NodeAnswer): Readonly<Record<string, unknown>> =>
  failure
    ? { error: { code: codeName(failure), message: failure.message } }
    : {
        nodeId: nodeId ?? null,
        segments,
        rules: outcomes.map(outcome => ({
          key: outcome.rule.key,
          source: outcome.rule.source.kind,
          input: outcome.input ?? null,
          applied: outcome.applied,
          value: (isOverruled(outcome, outcomes) ? undefined : outcome.value) ?? null,
          reason: reasonOf(outcome, outcomes),
        })),
      };
