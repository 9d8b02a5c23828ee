import type { Copies } from "../mux/copies.ts";
import type { CopiesParts } from "../mux/router.ts";
import { beforeDelete, CleanUp } from "./cleanup.ts";
import { CopyCommands } from "./commands.ts";
import type { UseDriver } from "./copy-work.ts";
import { CopyCreation } from "./create-volume.ts";
import { type CopyMethods, copyMethods, knownEnds, onlyPossible } from "./matrix.ts";
import { CopyRemoval } from "./removal.ts";
import { RunningCopies, type RunningCopiesParts } from "./running-copies.ts";

/** The most kinds of sources of which a status has the methods. */
const mostMethods = 20;

/** The copies between connections: opens them on the parts of a router, which has one for all of its callers. */
export const openCopies =
  (own: Omit<RunningCopiesParts, "use">) =>
  ({ connections, calls, groups, handles }: CopiesParts) => {
    const use: UseDriver = (name, work) => connections.use(name, "retry", ({ driver }) => work(driver));
    const copies = new RunningCopies({ ...own, use });
    const removal = new CopyRemoval(use);
    const parts = { connections, calls, copies, removal };
    const creation = new CopyCreation(parts);
    const commands = new CopyCommands(parts, creation, groups, handles);
    const cleanUp = new CleanUp({ copies, use, names: () => connections.names() });
    const port: Copies = {
      refuseBusy: handle => creation.refuseBusy(handle),
      methods: (source, to) => creation.methods(source, to),
      hasBegun: (...given) => creation.hasBegun(...given),
      async create(...given) {
        await copies.identify();
        return creation.create(...given);
      },
      beforeDelete: (...given) => beforeDelete(parts, creation, ...given),
      state: (connection, stored) => copies.state(connection, stored),
      view: () => copies.view(),
      stop: limitMs => copies.stop(limitMs),
    };
    return {
      ...port,
      /** Like RunningCopies.running. */
      running: copies.running.bind(copies),
      /** Like CopyCommands.run. */
      async command(...given: Parameters<CopyCommands["run"]>) {
        await copies.identify();
        return commands.run(...given);
      },
      /** Like CleanUp.run. */
      cleanUp: cleanUp.run.bind(cleanUp),
      /** How content gets from one connection to another; undefined if copies are switched off or there are fewer than two connections. */
      matrix: (): CopyMethods | undefined => {
        const settings = copies.settings();
        const ends = knownEnds(connections.seen());
        if (!settings.enabled || ends.length < 2) return undefined;
        return onlyPossible(copyMethods(ends, settings, mostMethods));
      },
    };
  };
