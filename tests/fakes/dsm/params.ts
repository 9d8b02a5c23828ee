/** Parameters of a request: JSON where the text is JSON, else the text. */
export type Params = Readonly<Record<string, unknown>>;

/** An answer `{success: false}`. */
export class DsmFailure extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`DSM error ${code}`);
    this.code = code;
  }
}

/** The parameters of a form. */
export function paramsOf(form: URLSearchParams): Params {
  return Object.fromEntries(
    [...form].map(([key, value]) => {
      try {
        return [key, JSON.parse(value)];
      } catch {
        return [key, value];
      }
    }),
  );
}

/**
 * A parameter that must be text: unquoted digits are a number to DSM, and refused (target_id: jasoncheng7115/jt-pve-storage-synology 9a96fa3).
 * 114: a parameter is missing, 120: one is invalid (ychiu1211/dsmctl 6bc38a6, internal/synology/category.go).
 */
export function text(params: Params, key: string): string {
  const value = params[key];
  if (typeof value === "string") return value;
  throw new DsmFailure(value === undefined ? 114 : 120);
}

/** A parameter that must be a whole number. */
export function whole(params: Params, key: string): number {
  const value = params[key];
  if (typeof value === "number" && Number.isInteger(value)) return value;
  throw new DsmFailure(value === undefined ? 114 : 120);
}
