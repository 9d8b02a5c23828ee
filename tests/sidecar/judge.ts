import type { Segments } from "../../lib/core/access.ts";
import type { AccessibilityRequirements } from "../../lib/topology/accessible-topology.ts";
import { prefix, type Scenario, type Universe } from "./universe.ts";

/** What came back: the connection in the handle and where the volume is, or a gRPC status. */
export type Came =
  | { readonly connection: string; readonly places: readonly Segments[] }
  | { readonly status: number; readonly details: string };

const resourceExhausted = 8;

const within = (term: Segments, labels: Segments): boolean =>
  Object.entries(term).every(([key, value]) => labels[key] === value);

/** The connections that a class with this target may use, with their places under full keys. */
function membersOf(target: string, { connections, groups }: Universe) {
  const names = groups.find(({ name }) => name === target)?.members ?? [target];
  return connections
    .filter(({ name }) => names.includes(name))
    .map(({ name, places }) => ({
      name,
      places: places.map(place =>
        Object.fromEntries(Object.entries(place).map(([key, value]) => [`${prefix}/${key}`, value])),
      ),
    }));
}

/** The labels of the nodes that a term permits. A term of allowedTopologies may be ahead of its nodes and stands for one then. */
function permitted(term: Segments, { nodes }: Scenario): readonly Segments[] {
  const found = nodes.map(({ labels }) => labels).filter(labels => within(term, labels));
  return found.length > 0 ? found : [term];
}

type Member = ReturnType<typeof membersOf>[number];

/** Which of the preferred terms is the first that one of the places can serve. */
function rankOf(places: readonly Segments[], { preferred }: AccessibilityRequirements, strict: boolean): number {
  const serves = (place: Segments, term: Segments) =>
    Object.entries(place).every(([key, value]) => (key in term ? term[key] === value : !strict));
  const first = preferred.findIndex(term => places.length === 0 || places.some(place => serves(place, term)));
  return first < 0 ? preferred.length : first;
}

/**
 * What is wrong with an answer, judged by who could mount the volume; undefined when nothing is.
 * Terms of allowedTopologies that leave out keys which a connection needs can be read in two ways: `strict` says that
 * such a connection must not be used, otherwise it may be. Only the other half of the rule is then judged.
 */
export function wrong(
  scenario: Scenario,
  demand: AccessibilityRequirements | undefined,
  came: Came,
  universe: Universe,
  strict: boolean,
): string | undefined {
  const members = membersOf(scenario.target, universe);
  const terms = demand?.requisite ?? [];
  const nodes = terms.flatMap(term => permitted(term, scenario));
  const reaches = (places: readonly Segments[]) =>
    places.length === 0 || nodes.some(labels => places.some(place => within(place, labels)));
  const complete = members.every(({ places }) =>
    places.every(place => terms.every(term => Object.keys(place).every(key => Object.hasOwn(term, key)))),
  );
  if ("status" in came) {
    if (came.status !== resourceExhausted) return `status ${came.status}: ${came.details}`;
    if (demand === undefined) return "refused although nothing was asked for";
    const able = members.filter(({ places }) => reaches(places) && (complete || !strict));
    return able.length > 0 ? `refused although ${able.map(({ name }) => name).join(", ")} could take it` : undefined;
  }
  const member = members.find(({ name }) => name === came.connection);
  if (!member) return `${came.connection} is not what the class names`;
  // Without requirements csimux is not told of any node, so every place is as good as another.
  if (demand === undefined) return undefined;
  if (came.places.some(place => Object.keys(place).length === 0)) return "reported an empty place";
  if (!came.places.every(place => member.places.some(own => JSON.stringify(own) === JSON.stringify(place))))
    return "reported a place that the connection does not have";
  if ((member.places.length === 0) !== (came.places.length === 0)) return "lost or invented places";
  const rank = ({ places }: Member) => rankOf(places, demand, strict);
  const better = members.find(each => rank(each) < rank(member));
  if (better) return `${better.name} is preferred to ${member.name}`;
  return reaches(came.places) || !(complete || strict) ? undefined : "no allowed node can reach the volume";
}
