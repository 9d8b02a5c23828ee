import type { CallBegun, CallObserver } from "../core/observer.ts";

/** How many connections a process without connection files takes note of: it knows only those of the volumes it is asked about. */
const most = 1_000;

/** Who knows which names there are. */
export interface Names {
  /** The only connection, whose ids have no prefix; undefined where there are several. */
  readonly single: string | undefined;
  /** Whether this is a connection or group; undefined where the process has no connection files (a node). */
  readonly known: ((name: string) => boolean) | undefined;
}

/**
 * The same observer, told only of connections that there are. Names come from classes and handles, and whoever writes those could
 * otherwise make csimux remember names without end.
 */
export function named(observer: CallObserver, names: () => Names): CallObserver {
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

/** Both are told, in this order. */
export const both =
  (one: CallObserver, other: CallObserver): CallObserver =>
  begun => {
    const ends = [one(begun), other(begun)];
    return result => {
      for (const end of ends) end(result);
    };
  };
