import { ZfsError, type ZfsFailure } from "../../zfs/zfs.ts";
import { ApiError, errnos, isBusy, isDenied, isFull, isMissing } from "../api-error.ts";

/** What TrueNAS says when ZFS did not do something. Its numbers decide; its words only where it has no number for it. */

const words: readonly (readonly [RegExp, ZfsFailure])[] = [
  [/\b(?:dependent clones|following clones)\b/, "dependents"],
  [/\b(?:following holds|being held)\b/, "held"],
  [/\balready exists\b/, "exists"],
  [/\b(?:does not exist|not found)\b/, "absent"],
  [/\bbusy\b/, "busy"],
  [/\b(?:out of space|no space)\b/, "full"],
  [/\bhas (?:children|snapshots)\b/, "dependents"],
];

function failureOf(error: ApiError): ZfsFailure {
  if (isDenied(error)) return "denied";
  const said = words.find(([pattern]) => pattern.test(error.message))?.[1];
  if (isFull(error)) return "full";
  if (isBusy(error)) return said === "dependents" || said === "held" ? said : "busy";
  if (isMissing(error)) return "absent";
  if (error.problems.some(({ errno }) => errno === errnos.exists) || error.errno === errnos.exists) return "exists";
  if (error.errno === errnos.notEmpty) return "dependents";
  return said ?? (error.problems.length > 0 ? "invalid" : "other");
}

/** The error of the port for one of the API. A failure of the way to the server stays what it is. */
export const zfsError = (error: unknown): unknown => {
  if (!(error instanceof ApiError) || isDenied(error) || error.errno === errnos.noMethod) return error;
  return new ZfsError(failureOf(error), error.message.replaceAll(/\s+/g, " "), { cause: error });
};

/** Why ZFS did not do something, or undefined for a failure of another kind. */
export const whyNot = (error: unknown): ZfsFailure | undefined => {
  const known = zfsError(error);
  return known instanceof ZfsError ? known.failure : undefined;
};
