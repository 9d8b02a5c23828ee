import type { CallBegun, CallObserver } from "../core/observer.ts";

/**
 * The most connections recorded by a process without connection files, which knows only the connections of the volumes in its
 * calls.
 */
const most = 1_000;

/** The known names of connections and groups. */
export interface KnownNames {
  /** The only connection, whose ids have no prefix; undefined if there are several. */
  readonly single: string | undefined;
  /** Whether a connection or group exists; undefined if the process has no connection files (a node). */
  readonly known: ((name: string) => boolean) | undefined;
}

/**
 * Wraps an observer so that it receives only existing connections. Names come from classes and handles, and their
 * authors could otherwise make csimux remember an unlimited number.
 */
export function onlyKnownNames(observer: CallObserver, names: () => KnownNames): CallObserver {
  const met = new Set<string>();
  const admitted = (name: string | undefined, object: CallBegun["object"]): string | undefined => {
    const { single, known } = names();
    // Ids of the only connection have no prefix.
    if (name === undefined) return object === undefined ? undefined : single;
    if (single !== undefined) return name === single ? single : undefined;
    if (known) return known(name) ? name : undefined;
    if (met.size < most) met.add(name);
    return met.has(name) ? name : undefined;
  };
  return begun => {
    const end = observer({ ...begun, connection: admitted(begun.connection, begun.object) });
    return result => end({ ...result, connection: admitted(result.connection, begun.object) });
  };
}

/** Calls both observers, in this order. */
export const toBoth =
  (one: CallObserver, other: CallObserver): CallObserver =>
  begun => {
    const ends = [one(begun), other(begun)];
    return result => {
      for (const end of ends) end(result);
    };
  };
