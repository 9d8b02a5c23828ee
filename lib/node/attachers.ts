import { CsiError } from "../core/errors.ts";
import type { CommandRunner } from "../io/runner.ts";
import { hostpath } from "./attach/hostpath.ts";
import type { Attacher } from "./attacher.ts";

/** The key of `volume_context` that names the protocol. */
export const protocolKey = "node_attach_driver";

/** The protocols that this node can attach, by the value of `node_attach_driver`. */
export type Attachers = ReadonlyMap<string, Attacher>;

/** What attachers work with. */
export interface AttacherPorts {
  /** Programs of csimux's own container. */
  readonly runner: CommandRunner;
  /** The same programs where the host's own are needed, because their daemon's state is the host's; paths are the host's. */
  readonly host: CommandRunner;
}

/** Every protocol that csimux has. */
export const attachers = ({ runner }: AttacherPorts): Attachers => new Map([["hostpath", hostpath(runner)]]);

/** Throws "invalid-argument" for a protocol that is missing or unknown. */
export function attacherOf(known: Attachers, protocol: string | undefined, volumeId: string): Attacher {
  if (!protocol) throw new CsiError("invalid-argument", `volume_context of "${volumeId}" does not hold ${protocolKey}`);
  const attacher = known.get(protocol);
  if (attacher) return attacher;
  const names = [...known.keys()].join(", ");
  throw new CsiError(
    "invalid-argument",
    `volume "${volumeId}": ${protocolKey} "${protocol.slice(0, 100)}" is not one of ${names}`,
  );
}
