import type { CopyState } from "../../copy/commands.ts";
import { CsiError } from "../../core/errors.ts";
import { encodeHandle, type Handle } from "../../core/handle.ts";
import type { Landing } from "../../drivers/copying.ts";
import type { CopyEngine } from "./parts.ts";

/** The state of a copy from its record, with the progress if it runs in this process. The state is "unreadable" if the record cannot be used. */
export function copyState(engine: CopyEngine, connection: string, landing: Landing): CopyState {
  const target: Handle = { kind: "volume", connection, id: landing.id };
  const handle = encodeHandle(target);
  try {
    const running = engine.copies.running(target);
    const record = running?.record ?? engine.text.read(landing, `volume ${handle}`);
    const { origin, name, role, way, round, done, total, asked, owner, fault } = record;
    const state = record.state === "copying" && owner === "" && !running ? "paused" : record.state;
    const { rate = 0n, waits } = running?.progress ?? {};
    return {
      ...{ kind: "copy", target: handle, source: origin.handle, sourceKind: origin.kind, name, role },
      ...{ state, way, round, done, total, rate, asked, owner, fault },
      ...(waits !== undefined && { waits }),
    };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    const nothing = { source: "", sourceKind: "volume", name: "", role: "create", state: "unreadable" } as const;
    const zero = { round: 0, done: 0n, total: 0n, rate: 0n, asked: 0, owner: "" };
    return { kind: "copy", target: handle, ...nothing, ...zero, fault: error.message };
  }
}
