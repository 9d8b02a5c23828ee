/** Some connections: by name, in order, or by their labels. */
export type ConnectionSet =
  | { readonly kind: "members"; readonly members: readonly string[] }
  | { readonly kind: "selector"; readonly selector: Selector };

/** A named set of connections from which a class may provision. */
export interface Group {
  readonly from: ConnectionSet;
  /**
   * ordered: the first member that fits; spread: evenly, by hash of the volume's name; most-free: the member with most
   * free space.
   */
  readonly policy: "ordered" | "spread" | "most-free";
}

/** How long a connection stays open after its last call (`proxy.cacheTimeoutMinutes`; 0: none; -1: forever). */
export type CacheTimeout =
  | { readonly kind: "idle"; readonly ms: number }
  | { readonly kind: "forever" }
  | { readonly kind: "none" };

/** How copies between connections run (`proxy.copies`). */
export interface CopySettings {
  readonly enabled: boolean;
  /** Copies that one process runs at once. */
  readonly atOnce: number;
  /** Copies that one process runs at once with one storage system as source or target. */
  readonly perMachine: number;
  /** A copy that was not asked for in this time pauses, in milliseconds. */
  readonly idleMs: number;
  /** A copy that was not asked for in this time is removed, in seconds. */
  readonly keepSeconds: number;
}

/** Without a main file's own settings. */
export const usualCopies: CopySettings = {
  enabled: true,
  atOnce: 2,
  perMachine: 1,
  idleMs: 20 * 60_000,
  keepSeconds: 72 * 3_600,
};

/** What a connection file says about copies (`copies`). */
export interface CopyPolicy {
  /** The connections whose content may come here; undefined: any. */
  readonly from: ConnectionSet | undefined;
  /** The connections that may get content from here; undefined: any. */
  readonly to: ConnectionSet | undefined;
  /** Encrypted content of this connection may be stored without encryption elsewhere. */
  readonly allowPlain: boolean;
  /** Copies file by file may lose the NFSv4 ACLs of this connection's files. */
  readonly dropAcls: boolean;
}

/** Whether a set has a connection of this name and these labels; undefined stands for any. */
export const hasConnection = (
  set: ConnectionSet | undefined,
  name: string,
  labels: Readonly<Record<string, string>>,
): boolean => {
  if (!set) return true;
  return set.kind === "members" ? set.members.includes(name) : selects(set.selector, labels);
};

/** One condition on the labels of a connection. */
export interface LabelTerm {
  readonly key: string;
  /**
   * in: the value is one of `values`; not-in: it is not, or the label is missing; exists, absent: whether the label
   * exists.
   */
  readonly operator: "in" | "not-in" | "exists" | "absent";
  readonly values: readonly string[];
}

/** A list of terms that must all hold. */
export type Selector = readonly LabelTerm[];

const holds = ({ key, operator, values }: LabelTerm, labels: Readonly<Record<string, string>>): boolean => {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  if (operator === "exists") return value !== undefined;
  if (operator === "absent") return value === undefined;
  const listed = value !== undefined && values.includes(value);
  return operator === "in" ? listed : !listed;
};

/** Whether the selector selects a connection with these labels. */
export const selects = (selector: Selector, labels: Readonly<Record<string, string>>): boolean =>
  selector.every(term => holds(term, labels));

const expression = /^\s*(?:(!)\s*([\w./-]+)|([\w./-]+)(?:\s*(==|=|!=)\s*([\w.-]*)|\s+(in|notin)\s*\(([^()]*)\))?)\s*$/;

/**
 * Parses `tier=fast, site in (a, b), !old`: the operators of Kubernetes label selectors (=, ==, !=, in, notin, exists,
 * !exists). Throws an Error that quotes the invalid part.
 */
export function parseSelector(text: string): Selector {
  return text.split(/,(?![^(]*\))/).map(part => {
    const match = expression.exec(part);
    if (!match)
      throw new Error(`"${part.trim()}" is not a label condition such as a=b, a!=b, a in (b, c), a notin (b), a, !a`);
    const [, not, absent, key = "", equals, value = "", set, list = ""] = match;
    if (not) return { key: absent ?? "", operator: "absent", values: [] };
    if (equals) return { key, operator: equals === "!=" ? "not-in" : "in", values: [value] };
    if (set) return { key, operator: set === "in" ? "in" : "not-in", values: list.split(",").map(item => item.trim()) };
    return { key, operator: "exists", values: [] };
  });
}
