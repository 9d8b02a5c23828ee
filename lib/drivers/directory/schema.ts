import { folderMode, folderOwner } from "../../schema/owners.ts";
import {
  flag,
  folder,
  host,
  list,
  mapOf,
  oneOf,
  optional,
  path,
  record,
  scalar,
  secret,
  text,
} from "../../schema/parts.ts";
import { shaped, shareFolder } from "../../schema/storage.ts";

const environment = mapOf(scalar({ description: "value of the variable", secret: true }), {
  description: "environment of the tool: repository, credentials, cache folder",
  example: { RESTIC_REPOSITORY: "rest:https://backup.example.org/" },
});

const flags = list(text({ description: "one argument" }), {
  description: "arguments that are put in front of every call of the tool",
  example: ["--insecure-tls"],
});

const tags = list(text({ description: "one tag" }), {
  description: "tags that every snapshot carries",
  example: ["csi"],
});

const restic = record(
  {
    global_flags: optional(flags),
    tags: optional(tags),
    prune: optional(flag({ description: "free the space of a deleted snapshot at once (slow)" }), false),
    env: optional(environment),
  },
  { description: "how snapshots are kept with restic" },
);

const kopia = record(
  {
    config_token: optional(
      secret({ description: "token of `kopia repository status -t`: repository and credentials in one text" }),
    ),
    global_flags: optional(flags),
    tags: optional(tags),
    env: optional(environment),
  },
  { description: "how snapshots are kept with kopia" },
);

const snapshots = record(
  {
    default_driver: optional(
      oneOf(["filecopy", "restic", "kopia"], {
        description: "how snapshots are kept; the parameter `driver` of a VolumeSnapshotClass overrides it",
      }),
      "filecopy",
    ),
    restic: optional(restic),
    kopia: optional(kopia),
  },
  { description: "snapshots of directories are copies; this says where they go" },
);

const common = {
  shareBasePath: path({ description: "the folder of the volumes as clients see it", example: "/export/k8s" }),
  controllerBasePath: folder({ description: "the same folder as the controller sees it", example: "/storage" }),
  dirPermissionsMode: optional(
    folderMode({
      description: "permission bits of a new volume's top folder",
      absent: "left as created (0755)",
      example: "0777",
    }),
  ),
  dirPermissionsUser: optional(
    folderOwner({
      description: "owner of a new volume's top folder; a number is safest. 0 without quotes leaves it as it is",
      example: "1000",
    }),
  ),
  dirPermissionsGroup: optional(
    folderOwner({
      description: "group of a new volume's top folder; a number is safest. 0 without quotes leaves it as it is",
      example: "1000",
    }),
  ),
  snapshots: optional(snapshots),
};

const shared = {
  shareHost: host({ description: "the server as nodes reach it", example: "nas.example.org" }),
  ...common,
  requireMount: optional(
    flag({
      description:
        "where the share is not mounted at `controllerBasePath`, csimux mounts the share itself and works there, so that volumes never land on the controller's own disk; false: the folder is used whatever it is",
    }),
    true,
  ),
};

const aliases = {
  dirPermissionMode: "dirPermissionsMode",
  dirPermissionUser: "dirPermissionsUser",
  dirPermissionGroup: "dirPermissionsGroup",
  sharePath: "shareBasePath",
};

export const nfsClientSchema = record({ nfs: record(shared, { description: "an NFS export", aliases }) });
export const smbClientSchema = record({
  smb: record(
    {
      ...shared,
      shareBasePath: shareFolder({
        description: "the share and the folder of the volumes in it",
        example: "k8s/volumes",
      }),
    },
    { description: "an SMB share", aliases },
  ),
});

/** One or several nodes of the management service as mount.lustre(8) takes them, such as 10.0.0.1@tcp:10.0.0.2@tcp. */
const managementNodes = shaped(
  /^(?:[A-Za-z0-9._@,:-]+|server address)$/,
  "must be the management nodes alone, such as 10.0.0.1@tcp:10.0.0.2@tcp, without scheme, path or spaces",
  { description: "the management nodes as nodes reach them", example: "10.0.0.1@tcp:10.0.0.2@tcp" },
);
export const lustreClientSchema = record({
  lustre: record({ ...shared, shareHost: managementNodes }, { description: "a Lustre file system", aliases }),
});
export const localHostpathSchema = record({
  "local-hostpath": record(common, {
    description: "a folder of each node",
    aliases,
    ignored: { shareHost: "local-hostpath has no server" },
  }),
});
