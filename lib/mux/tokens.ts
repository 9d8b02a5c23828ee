import { createHash } from "node:crypto";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle, isConnectionName } from "../core/handle.ts";

/** Where a page of a listing over all connections begins. */
export interface PagePosition {
  readonly connection: string;
  /** The driver's own token; empty: from the connection's beginning. */
  readonly inner: string;
}

/** The tokens of one listing. A token of another one is refused: it would omit what this one has not shown yet. */
export interface ListTokens<T = PagePosition> {
  write(position: T): string;
  /** Throws "aborted" for a token that csimux did not create for this listing (CSI ListVolumes, "Invalid starting_token"). */
  read(token: string): T;
}

/** The mark after the connection's name, which cannot contain it, identifies the listing. One character, since tokens have 128 bytes. */
const tokensWith = (mark: string): ListTokens => ({
  write: ({ connection, inner }) => connection + mark + inner,
  read(token) {
    const end = token.indexOf(mark);
    const connection = token.slice(0, end);
    if (end < 0 || !isConnectionName(connection)) throw badToken();
    return { connection, inner: token.slice(end + mark.length) };
  },
});

/** Tokens of ListVolumes. */
export const volumeTokens = tokensWith("/");

/** Tokens of ListSnapshots without a filter. */
export const snapshotTokens = tokensWith("@");

/** Tokens of ControllerListVolumeHealth. */
export const healthTokens = tokensWith("!");

/** Tokens of ListSnapshots for one volume, around the driver's own. */
export function filterTokens(volume: Handle): ListTokens<string> {
  const head = `${createHash("sha256").update(encodeHandle(volume)).digest("hex").slice(0, 12)}:`;
  return {
    write: inner => head + inner,
    read(token) {
      if (!token.startsWith(head)) throw badToken();
      return token.slice(head.length);
    },
  };
}

/** The refusal of a token. */
export const badToken = (): CsiError =>
  new CsiError("aborted", "starting_token is not a token of this listing; start the listing again");
