import type { Diagnostic } from "../../schema/finding.ts";

/** `path: what is wrong; what to do`, on one line. */
export const inOneLine = ({ path, message, fix }: Pick<Diagnostic, "path" | "message" | "fix">): string =>
  `${path === "" ? "" : `${path}: `}${message}${fix === undefined ? "" : `; ${fix}`}`;
