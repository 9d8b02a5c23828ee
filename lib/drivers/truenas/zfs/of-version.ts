import { HttpError } from "../../../io/dial.ts";
import type { Api } from "../api.ts";
import { ApiError } from "../api-error.ts";

/** The error for a system that was upgraded, or set back, while a call ran: methods and parameters depend on the version. */
export const otherVersion = ({ where }: Pick<Api, "where">): HttpError =>
  new HttpError(where, "lost", "the system is of another version now");

/** Runs `work`, which was written for the version `number`. Throws otherVersion's error where a system of another version refused it. */
export async function ofVersion<T>(
  api: Pick<Api, "where" | "version">,
  number: number,
  work: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError && (await api.version(signal)).number !== number) throw otherVersion(api);
    throw error;
  }
}
