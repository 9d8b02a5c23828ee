import { CsiError } from "../core/errors.ts";

/**
 * The result of an expansion. external-resizer takes "failed-precondition" for "in use" and stops while a pod uses the volume, although
 * a tool or a permission may be missing; "unavailable" is retried, which is right for both.
 */
export async function notInUse<T>(expanding: Promise<T>): Promise<T> {
  try {
    return await expanding;
  } catch (error) {
    if (!(error instanceof CsiError && error.code === "failed-precondition")) throw error;
    throw new CsiError("unavailable", error.message, { cause: error });
  }
}
