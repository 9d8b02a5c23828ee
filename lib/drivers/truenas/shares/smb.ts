import { rendered } from "../../../core/template.ts";
import type { SmbSection } from "../sections.ts";
import type { PathProtocol } from "./path-share.ts";
import { nameOf, type ShareContext, showsParameters, tableOf, taken, templateValues } from "./share.ts";

/** From 25.10 on a share has a purpose, and options that depend on it (api/v25_10_0/smb.py). */
const withPurposes = 2510;

const rule = { foreign: /[%<>*?|/\\+=;:",[\]\s]/g, maxLength: 80 };

const given = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** Volumes as SMB shares, whose names are unique on the server. */
export const smb = (context: ShareContext, settings: SmbSection): PathProtocol => ({
  protocol: "smb",
  table: "sharing.smb",
  service: "cifs",
  server: settings.shareHost,
  access: ["hostsallow", "hostsdeny", "guestok"],
  onePathSince: 0,
  shareOf: row => String(row["name"]),
  describe: row => `the SMB share "${row["name"]}"`,
  request(volume, path, { parameters }, version) {
    // A volume that is complete keeps the name that nodes know.
    const name = volume.notes["share"] ?? nameOf(volume, parameters, settings, rule);
    const { shareAuxiliaryConfigurationTemplate: template } = settings;
    const options = given({
      auxsmbconf: template === undefined ? undefined : rendered(template, templateValues(volume, parameters)),
      home: settings.shareHome,
      hostsallow: settings.shareAllowedHosts,
      hostsdeny: settings.shareDeniedHosts,
      guestok: settings.shareGuestOk,
      recyclebin: settings.shareRecycleBin,
      timemachine: settings.shareTimeMachine,
    });
    const base = { name, path, ...given({ browsable: settings.shareBrowsable }) };
    const enumeration = settings.shareAccessBasedEnumeration;
    if (version < withPurposes) return { ...base, ...options, ...given({ abe: enumeration }) };
    const purpose = "LEGACY_SHARE";
    return {
      ...base,
      ...given({ access_based_share_enumeration: enumeration }),
      ...{ purpose, options: { purpose, ...options } },
    };
  },
  whyLost: ({ notes }) =>
    notes["share"] === undefined
      ? "nothing says what it was called"
      : showsParameters(settings.shareAuxiliaryConfigurationTemplate)
        ? "its options depend on the parameters of the class"
        : undefined,
  async refuseClash(request, call) {
    const { name } = request as { readonly name: string };
    const [other] = await tableOf(context, "sharing.smb", call).find(["name", "C=", name]);
    if (other) throw taken(context, `the SMB share "${name}"`, String(other["path"]));
  },
});
