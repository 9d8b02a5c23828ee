/** The versions of TrueNAS that the double can be. */
export const versions = [
  ...(["12.0", "13.0", "21.08", "22.02", "22.12", "23.10", "24.04"] as const),
  ...(["24.10", "25.04", "25.10", "26.0"] as const),
] as const;

export type Version = (typeof versions)[number];

const texts: Readonly<Record<Version, string>> = {
  "12.0": "TrueNAS-12.0-U8.1",
  "13.0": "TrueNAS-13.0-U6.3",
  "21.08": "TrueNAS-SCALE-21.08-BETA.1",
  "22.02": "TrueNAS-SCALE-22.02.4",
  "22.12": "TrueNAS-SCALE-22.12.4.2",
  "23.10": "TrueNAS-SCALE-23.10.2",
  "24.04": "TrueNAS-SCALE-24.04.2.5",
  "24.10": "TrueNAS-SCALE-24.10.2.4",
  "25.04": "TrueNAS-25.04.2.6",
  "25.10": "TrueNAS-25.10.6",
  "26.0": "TrueNAS-26.0.0",
};

/** What `system.version` says. */
export const versionText = (version: Version): string => texts[version];

/** 25.10 → 2510, to compare. */
export const numberOf = (version: Version): number => {
  const [major = "0", minor = "0"] = version.split(".");
  return Number(major) * 100 + Number(minor);
};

/** The versions that API drivers can work with. */
export const scaleVersions: readonly Version[] = versions.filter(version => numberOf(version) >= 2108);

/** The versions that facts/ has. */
export const versionsWithFacts: readonly Version[] = versions.filter(version => numberOf(version) >= 2410);

/** The versions that every test of the API drivers runs on; TRUENAS_VERSIONS=all in the environment adds the older ones. */
export const recentVersions: readonly Version[] =
  process.env["TRUENAS_VERSIONS"] === "all"
    ? scaleVersions
    : scaleVersions.filter(version => numberOf(version) >= 2410);

const listed: readonly (readonly [number, string])[] = [
  [2504, "v25.04.0"],
  [2504, "v25.04.1"],
  [2504, "v25.04.2"],
  [2510, "v25.10.0"],
  [2510, "v25.10.1"],
  [2510, "v25.10.2"],
  [2510, "v25.10.3"],
  [2510, "v25.10.4"],
  [2510, "v25.10.5"],
  [2600, "v26.0.0"],
];

/**
 * What /api/versions lists, oldest first; undefined where the page does not exist (main.py of TS-25.04.2.6, api_versions_handler; the
 * folders of api/). 25.10.6 lists up to v25.10.5.
 */
export const apiVersions = (version: Version): readonly string[] | undefined => {
  const own = numberOf(version);
  return own < 2504 ? undefined : listed.filter(([since]) => since <= own).map(([, text]) => text);
};
