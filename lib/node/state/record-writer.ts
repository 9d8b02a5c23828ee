import type { SaveNotes } from "../attach/attacher.ts";
import { digest } from "./digest.ts";
import type { StageRecord, StageRecords } from "./stage-records.ts";

const terms = ({ stagingPath, protocol, kind, fsType, mode, flags }: StageRecord) => ({
  stagingPath,
  protocol,
  kind,
  fsType,
  mode,
  flags,
});

/** Whether two records were made by equal staging calls. */
export const isSameStaging = (before: StageRecord | undefined, record: StageRecord): boolean =>
  before !== undefined && digest(terms(before)) === digest(terms(record));

const rest = ({ shows, context, attached, notes }: StageRecord) => ({
  shows: { ...shows },
  context,
  attached: { ...attached },
  notes,
});

const isSame = (a: StageRecord, b: StageRecord): boolean => isSameStaging(a, b) && digest(rest(a)) === digest(rest(b));

/** The record of one staging in progress; writes it only when it changes. */
export class StageRecordWriter {
  readonly #records: StageRecords;
  #record: StageRecord;
  #saved: StageRecord | undefined;

  constructor(records: StageRecords, record: StageRecord, saved: StageRecord | undefined) {
    this.#records = records;
    this.#record = record;
    this.#saved = saved;
  }

  /** The current record. */
  get record(): StageRecord {
    return this.#record;
  }

  /** Changes the record and writes it. Throws as StageRecords.save does. */
  async save(more: Partial<StageRecord> = {}, lasting = false): Promise<void> {
    this.#record = { ...this.#record, ...more };
    if (this.#saved && isSame(this.#record, this.#saved)) return;
    await this.#records.save(this.#record, lasting);
    this.#saved = this.#record;
  }

  /** Adds notes and resolves once they are on disk. */
  readonly note: SaveNotes = async notes => {
    const all = Object.entries({ ...this.#record.notes, ...notes });
    const kept = all.filter((entry): entry is [string, string] => entry[1] !== undefined);
    await this.save({ notes: Object.fromEntries(kept) }, true);
  };

  /** Makes an earlier record valid again. */
  async restore(record: StageRecord): Promise<void> {
    this.#record = record;
    await this.save();
  }
}
