declare const CSIMUX_VERSION: string | undefined;
declare const CSIMUX_COMMIT: string | undefined;

/** The version, set by the build; "dev" when run from sources. */
export const version: string = typeof CSIMUX_VERSION === "string" ? CSIMUX_VERSION : "dev";
/** The commit, set by the build; "unknown" when run from sources. */
export const commit: string = typeof CSIMUX_COMMIT === "string" ? CSIMUX_COMMIT : "unknown";
