import type { Copies } from "../../copy/copies.ts";
import type { CopyRemoval } from "../../copy/removal.ts";
import type { Connections } from "../connections.ts";
import type { StorageCalls } from "../storage-calls.ts";
import type { RecordText } from "./admission.ts";

/** The part of lib/copy that the router uses. */
export interface CopyEngine {
  readonly copies: Copies;
  readonly removal: CopyRemoval;
  readonly text: RecordText;
}

/** The parts of the router that copies use. */
export interface CopyingParts {
  readonly connections: Connections;
  readonly calls: StorageCalls;
  readonly engine: CopyEngine;
}
