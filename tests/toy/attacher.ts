import { protocols } from "../../lib/core/access.ts";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { Attached, Attacher, Attachment, AttachRequest, SaveNotes } from "../../lib/node/attach/attacher.ts";
import type { Step } from "./storage.ts";

/** A node in memory: sessions by target, each with the devices that it brought. */
export class ToyNode {
  readonly sessions = new Map<string, Set<string>>();

  remains(): readonly string[] {
    return [...this.sessions].map(([target, luns]) => `${target}: ${[...luns].join()}`);
  }
}

function needed(context: AttachRequest["context"], key: string): string {
  const value = context[key];
  if (value) return value;
  throw new CsiError("invalid-argument", `volume_context does not hold ${key}`);
}

/** Logs into the target of a volume and finds its device; several volumes share a session. */
export class ToyAttacher implements Attacher {
  readonly access = protocols.iscsi;
  readonly #node: ToyNode;
  readonly #step: Step;

  constructor(node: ToyNode, step: Step) {
    this.#node = node;
    this.#step = step;
  }

  readonly lockOf = (context: AttachRequest["context"]): string | undefined => context["iqn"];

  async attach({ context }: AttachRequest, note: SaveNotes, call: Call): Promise<Attached> {
    const iqn = needed(context, "iqn");
    const lun = needed(context, "lun");
    if (lun === "absent") throw new CsiError("not-found", `there is no LUN ${lun} behind ${iqn}`);
    call.signal.throwIfAborted();
    const { sessions } = this.#node;
    // Recorded first, so that an interrupted staging knows that it may end the session.
    if (!sessions.has(iqn)) await note({ opened: iqn });
    if (!sessions.has(iqn)) await this.#step(() => sessions.set(iqn, new Set()));
    await this.#step(() => sessions.get(iqn)?.add(lun));
    return { kind: "device", path: `/dev/toy-${lun}`, number: `8:${lun}`, identity: `${iqn}/${lun}`, proof: {} };
  }

  readonly detach = async ({ context }: Attachment, others: readonly Attachment[], _call: Call): Promise<void> => {
    const { sessions } = this.#node;
    const { iqn = "", lun = "" } = context;
    if (!sessions.has(iqn)) return;
    await this.#step(() => sessions.get(iqn)?.delete(lun));
    if (others.some(other => other.context["iqn"] === iqn)) return;
    await this.#step(() => sessions.delete(iqn));
  };
}
