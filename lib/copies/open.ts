import type { Copies } from "../mux/copies.ts";
import type { CopiesParts } from "../mux/router.ts";
import { beforeDelete, CleanUp } from "./cleanup.ts";
import { CopyCommands } from "./commands.ts";
import type { UseDriver } from "./copy-work.ts";
import { CopyCreation } from "./create-volume.ts";
import { CopyRemoval } from "./removal.ts";
import { RunningCopies, type RunningCopiesParts } from "./running-copies.ts";

/**
 * The copies between connections: opens them on the parts of a router, which has one for all of its callers.
 *
 * A copy is a record on the target's storage (record.ts), and next to it the target, which receives the content. Its words:
 * - role: requests for a claim's volume drive it ("create"), or the commands of `csimux move` do ("move").
 * - source snapshot: what is read. The source protects it until it is released (source-snapshot.ts).
 * - method: how content travels (methods.ts): `zfs-send` and `zfs-send-local` (zfs-send.ts), `rsync` (rsync/), `restore`.
 * - pass: the copy of one source snapshot. That of a claim has one, number 0; a move has several, each with what changed since the last.
 * - attempt: one try to complete a pass (copy-work.ts). A running copy (running-copy.ts) makes attempts until one succeeds, in turns
 *   with other copies (queue.ts).
 * - lease, holder, heartbeat: the right of one process to work on a copy; that process, also after it was killed, until the lease has
 *   expired; and the number that it raises in the record (lease.ts). "own" in names is what belongs to this process.
 * - finish: to make the target of a complete copy the volume (finish.ts). Only a request does that.
 * - freeze: to stop the source of a move before its last pass (freeze.ts).
 * - mark: a cancellation writes it next to the record, no matter which process is the holder; the record then counts as cancelled.
 * - drop, empty, forget: of a target, to remove it with its record, without it, or of a finished one the record only.
 *
 * What happens next to a copy is decided in next-step.ts, whose table also says what follows a crash. CreateVolume: create-volume.ts, begin.ts,
 * running-copy.ts, finish.ts. The command socket: protocol.ts, commands.ts. DeleteVolume, cancellation, the hourly clean-up: cleanup.ts.
 */
export const openCopies =
  (own: Omit<RunningCopiesParts, "use">) =>
  ({ connections, calls, groups, handles }: CopiesParts) => {
    const use: UseDriver = (name, work) => connections.use(name, "retry", ({ driver }) => work(driver));
    const copies = new RunningCopies({ ...own, use });
    const removal = new CopyRemoval(use);
    const parts = { connections, calls, copies, removal };
    const creation = new CopyCreation(parts);
    const commands = new CopyCommands(parts, creation, groups, handles);
    const spared: UseDriver = (name, work) =>
      connections.use(name, "retry", each => calls.make(each, () => work(each.driver)));
    const cleanUp = new CleanUp({ copies, use: spared, names: () => connections.names() });
    const port: Copies = {
      refuseBusy: handle => copies.refuseBusy(handle),
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
    };
  };
