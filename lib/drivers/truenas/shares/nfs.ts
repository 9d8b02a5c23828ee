import { rendered } from "../../../core/template.ts";
import type { NfsSection } from "../sections.ts";
import { canonicalNetworks } from "./networks.ts";
import type { PathProtocol } from "./path-share.ts";
import { type ShareContext, templateValues } from "./share.ts";

/** From 22.12 on a share has one path (plugins/nfs.py of TS-22.02.4 and TS-22.12.4.2). */
const onePathSince = 2212;
/** From 23.10 on no share has the field "quiet" (plugins/nfs.py of TS-22.12.4.2 and TS-23.10.2). */
const withoutQuiet = 2310;

/** Volumes as NFS shares, which TrueNAS identifies by id and path only. */
export const nfs = ({ driver }: ShareContext, settings: NfsSection): PathProtocol => ({
  protocol: "nfs",
  table: "sharing.nfs",
  service: "nfs",
  server: settings.shareHost,
  access: ["hosts", "networks", "maproot_user", "maproot_group", "mapall_user", "mapall_group", "security"],
  onePathSince,
  shareOf: (_, path) => path,
  describe: ({ id }, path) => `the NFS share ${id} of ${path}`,
  request(volume, path, { parameters }, version) {
    const template = settings.shareCommentTemplate ?? "democratic-csi ({{ csi.name }}): {{ zfs.datasetName }}";
    return {
      ...(version < onePathSince ? { paths: [path], alldirs: settings.shareAlldirs ?? false } : { path }),
      ...(version < withoutQuiet ? { quiet: false } : {}),
      comment: rendered(template, { ...templateValues(volume, parameters), csi: { name: driver } }),
      networks: canonicalNetworks(settings.shareAllowedNetworks),
      hosts: settings.shareAllowedHosts,
      ro: false,
      maproot_user: settings.shareMaprootUser,
      maproot_group: settings.shareMaprootGroup,
      mapall_user: settings.shareMapallUser,
      mapall_group: settings.shareMapallGroup,
      security: [],
    };
  },
});
