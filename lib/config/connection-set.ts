import * as v from "valibot";
import { connectionNameForm, isConnectionName } from "../core/handle.ts";
import { type ConnectionSet, parseSelector } from "../core/proxy.ts";
import { filled, list, optional, text } from "../schema/parts.ts";

/** The name of a connection. */
export const connectionName = (description: string) =>
  v.pipe(filled({ description }), v.check(isConnectionName, `must be a connection name: ${connectionNameForm}`));

/** What is wrong with a selector, or undefined. */
function selectorFault(value: string): string | undefined {
  try {
    const empty = parseSelector(value).find(({ values }) => values.includes(""));
    return empty && `has no value for "${empty.key}", and labels are never empty`;
  } catch {
    return "must be conditions such as tier=fast, site in (a, b), !old";
  }
}

/** The two keys that say which connections are meant. */
export const connectionSet = {
  members: optional(
    list(connectionName("a connection"), { description: "the connections, in order", example: ["nas1", "nas2"] }),
  ),
  selector: optional(
    v.pipe(
      text({ description: "conditions on the labels of connections", example: "tier=fast, site in (a, b)" }),
      v.check(
        value => selectorFault(value) === undefined,
        issue => selectorFault(String(issue.input)) ?? "",
      ),
    ),
  ),
};

interface ConnectionSetKeys {
  readonly members?: readonly string[] | undefined;
  readonly selector?: string | undefined;
}

/** Requires exactly one of the two keys, and each member once. */
export function* oneSet(value: ConnectionSetKeys): Generator<readonly [readonly (string | number)[], string]> {
  if (value.members && value.selector !== undefined)
    yield [["selector"], '"members" and "selector" are mutually exclusive; remove one of them'];
  if (!value.members && value.selector === undefined) yield [[], 'either "members" or "selector" is needed'];
  const twice = (value.members ?? []).findIndex((name, index, all) => all.indexOf(name) < index);
  if (twice >= 0) yield [["members", twice], "this connection is already a member"];
}

/** The keys as data. */
export const connectionSetOf = ({ members, selector }: ConnectionSetKeys): ConnectionSet =>
  selector === undefined
    ? { kind: "members", members: members ?? [] }
    : { kind: "selector", selector: parseSelector(selector) };
