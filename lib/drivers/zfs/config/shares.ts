import { host, oneOf, optional, record, text } from "../../../schema/parts.ts";

/** How file systems of a plain storage host are shared: the blocks `nfs:` and `smb:`. */

const shareHost = host({ description: "the server as nodes reach it", example: "nas.example.org" });

/** Keys of the TrueNAS drivers in the file of a plain host, where a ZFS property says the same. */
const ofTrueNas = (keys: readonly string[], property: string): Readonly<Record<string, string>> =>
  Object.fromEntries(keys.map(key => [key, `it belongs to TrueNAS; here ${property} says who may do what`]));

const nfsKeys = [
  "shareAlldirs",
  "shareAllowedHosts",
  "shareAllowedNetworks",
  "shareMaprootUser",
  "shareMaprootGroup",
  "shareMapallUser",
  "shareMapallGroup",
];

const smbKeys = [
  "shareAllowedHosts",
  "shareDeniedHosts",
  "shareGuestOk",
  "shareGuestOnly",
  "shareBrowsable",
  "shareRecycleBin",
  "shareAccessBasedEnumeration",
  "shareTimeMachine",
];

const byProperty = <const P extends string>(
  protocol: string,
  property: P,
  example: string,
  foreign: readonly string[],
) =>
  record(
    {
      shareHost,
      shareStrategy: oneOf(["setDatasetProperties"], {
        description: "how volumes are shared: by ZFS properties",
        example: "setDatasetProperties",
      }),
      shareStrategySetDatasetProperties: optional(
        record(
          {
            properties: optional(
              record(
                {
                  [property]: optional(
                    text({ description: `the ZFS property ${property} of a new volume`, absent: "inherited", example }),
                  ),
                } as Record<P, ReturnType<typeof optional<ReturnType<typeof text>>>>,
                { description: "properties that share a volume", ignored: { share: "OpenZFS has no such property" } },
              ),
            ),
          },
          { description: "settings of setDatasetProperties" },
        ),
      ),
    },
    { description: `sharing over ${protocol}`, ignored: ofTrueNas(foreign, property) },
  );

/** `nfs:` */
export const nfs = byProperty("NFS", "sharenfs", "rw,no_subtree_check,no_root_squash", nfsKeys);
/** `smb:` */
export const smb = byProperty("SMB", "sharesmb", "on", smbKeys);
