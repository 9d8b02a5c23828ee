import type { AttachedDevice, Attacher, AttachRequest, SaveNotes } from "../../lib/node/attach/attacher.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { callOf, writer } from "./lab.ts";

/** A volume as staging keeps it: its notes outlive the attacher, which is new for each call. */
export class FakeVolume {
  readonly volumeId: string;
  readonly context: Readonly<Record<string, string>>;
  notes: Record<string, string> = {};
  attached: object | undefined;

  constructor(volumeId: string, context: Readonly<Record<string, string>>) {
    this.volumeId = volumeId;
    this.context = context;
  }

  readonly note: SaveNotes = async notes => {
    for (const [key, value] of Object.entries(notes)) {
      if (value === undefined) delete this.notes[key];
      else this.notes[key] = value;
    }
  };

  async attach(
    host: Host,
    secrets: Readonly<Record<string, string>> = {},
    ...others: readonly FakeVolume[]
  ): Promise<AttachedDevice> {
    const { volumeId, context, notes, note } = this;
    const given = { publishContext: {}, capability: writer, readonly: false, table: new MountTable([]) };
    const wanted: AttachRequest = { volumeId, context, notes, ...given, others: async () => others };
    const attached = await host.attacher().attach(wanted, note, callOf(undefined, undefined, secrets));
    this.attached = attached;
    if (attached.kind === "device") return attached;
    throw new Error(`attached as ${attached.kind}`);
  }

  async detach(host: Host, ...others: readonly FakeVolume[]): Promise<void> {
    await host.attacher().detach?.(this, others, callOf());
  }

  async restore(host: Host): Promise<readonly string[] | undefined> {
    return await host.attacher().restore?.(this, callOf());
  }

  async grown(host: Host, least?: bigint): Promise<bigint | undefined> {
    return await host.attacher().grow?.(this, least, callOf());
  }
}

/** Makes attachers. */
interface Host {
  attacher(): Attacher;
}
