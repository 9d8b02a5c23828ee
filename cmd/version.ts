declare const CSIMUX_VERSION: string | undefined;
declare const CSIMUX_COMMIT: string | undefined;

/** Baked in by the build; "dev" when run from the sources. */
export const version: string = typeof CSIMUX_VERSION === "string" ? CSIMUX_VERSION : "dev";
/** The commit it was built from; "unknown" when run from the sources. */
export const commit: string = typeof CSIMUX_COMMIT === "string" ? CSIMUX_COMMIT : "unknown";
