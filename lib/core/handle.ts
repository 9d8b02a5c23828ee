import { CsiError } from "./errors.ts";

/** A parsed CSI id of this driver: `v:<connection>/<id>` for volumes, `s:<connection>/<id>` for snapshots. */
export interface Handle {
  readonly kind: "volume" | "snapshot";
  readonly connection: string;
  /** The underlying driver's id; opaque here, may contain any character, "/" included. */
  readonly id: string;
}

const letters = { volume: "v", snapshot: "s" } as const;

/** The longest id in bytes in a CSI string field (CSI "Size Limits"). */
export const maxHandleBytes = 128;

const nameShape = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

/** Whether a text is a valid connection name: 1 to 63 bytes, restricted so that it can never be a path. */
export const isConnectionName = (text: string): boolean => nameShape.test(text) && !text.includes("..");

/** The form of a connection name, for messages. */
export const connectionNameForm = '1 to 63 letters, digits, ".", "_", "-", a letter or digit at both ends';

/** The number of bytes left for the driver's id in a handle of this connection. */
export const idBytes = (connection: string): number => maxHandleBytes - 3 - connection.length;

/** Makes the CSI id. Throws "invalid-argument" for an invalid connection name and "internal" for an empty id. */
export const encodeHandle = (handle: Handle): string => encode(letters[handle.kind], handle);

/** The parts of a CSI id, or undefined if the text is not an id of this kind that csimux could have made. */
export function parseHandle(text: string, kind: Handle["kind"]): Handle | undefined {
  const parts = parse(letters[kind], text);
  return parts && { kind, ...parts };
}

/** A group snapshot: its connection and the driver's id. */
export type GroupHandle = Omit<Handle, "kind">;

/** Makes the CSI id of a group snapshot, `g:<connection>/<id>`. Throws like `encodeHandle`. */
export const encodeGroup = (handle: GroupHandle): string => encode("g", handle);

/** Like `parseHandle`, for a group snapshot. */
export const parseGroup = (text: string): GroupHandle | undefined => parse("g", text);

function encode(letter: string, { connection, id }: GroupHandle): string {
  if (!isConnectionName(connection))
    throw new CsiError("invalid-argument", `"${connection}" cannot name a connection: use ${connectionNameForm}`);
  if (id === "") throw new CsiError("internal", `connection "${connection}" produced an empty id`);
  return `${letter}:${connection}/${id}`;
}

function parse(letter: string, text: string): GroupHandle | undefined {
  if (!text.startsWith(`${letter}:`)) return undefined;
  const slash = text.indexOf("/");
  if (slash < 0 || slash === text.length - 1) return undefined;
  const connection = text.slice(2, slash);
  return isConnectionName(connection) ? { connection, id: text.slice(slash + 1) } : undefined;
}
