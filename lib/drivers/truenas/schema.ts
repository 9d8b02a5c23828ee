import * as v from "valibot";
import { httpAddress, sshConnection } from "../../schema/connecting.ts";
import { numericOwner } from "../../schema/owners.ts";
import { consistent, host, isPlaceholder, list, optional, record, text } from "../../schema/parts.ts";
import {
  acls,
  apart,
  cli,
  datasetSection,
  parents,
  permissions,
  quotas,
  zvolSection,
  zvols,
} from "../zfs/config/sections.ts";
import { iscsi, nfs, nvmeof, smb } from "./sections.ts";
import { keyInTheOpen } from "./server.ts";
import { aclFault } from "./zfs/acl.ts";
import { refusedValue } from "./zfs/values.ts";

const http = consistent(
  record(
    {
      ...httpAddress,
      apiKey: optional(
        text({ description: "API key, <number>-<secret>; takes precedence over username and password", secret: true }),
      ),
      username: optional(text({ description: "account that can manage datasets and shares", example: "csi" })),
      password: optional(text({ description: "password of the account", secret: true })),
      failoverHosts: optional(
        list(host({ description: "name or address of a controller", example: "nas-b.example.org" }), {
          description:
            "the controllers of a pair (High Availability) that csimux may log in to if the standby one names them; not needed if host is the shared address",
          absent: "csimux logs in to `host` only",
        }),
      ),
      apiVersion: optional(
        v.pipe(
          v.picklist([1, 2], "must be 1 or 2"),
          v.metadata({
            description: "version of the REST interface of old systems; not needed",
            absent: "detected",
          }),
        ),
      ),
    },
    {
      description: "the management interface of the TrueNAS system",
      aliases: { apikey: "apiKey", api_key: "apiKey", user: "username", insecure: "allowInsecure" },
    },
  ),
  function* (value) {
    if (isPlaceholder(value.host)) return;
    const open = keyInTheOpen(value);
    if (open !== undefined) yield [["apiKey"], open];
    if (value.apiKey) return;
    if (!value.password) yield [["apiKey"], 'give "apiKey", or "username" and "password"'];
    else if (!value.username) yield [["username"], '"password" is given without "username"'];
  },
);

const overApi = {
  cli: "this driver uses only the API and runs no program on the system",
  datasetPermissionsAclsBinary: "the API sets access control lists without a program",
};

const owners = permissions(numericOwner);
const ssh = { httpConnection: http, sshConnection };
const api = { httpConnection: http };

const sshDatasets = apart(record({ ...parents, cli, ...quotas, ...owners, ...acls }, datasetSection()));
const sshVolumes = apart(record({ ...parents, cli, ...zvols }, zvolSection()));
const { datasetPermissionsAcls } = acls;

/** What every version refuses in `datasetProperties`. */
function* refusedProperties(value: { readonly datasetProperties?: Readonly<Record<string, string>> | undefined }) {
  for (const [name, text] of Object.entries(value.datasetProperties ?? {})) {
    const refused = refusedValue(name, text);
    if (refused !== undefined) yield [["datasetProperties", name], refused] as const;
  }
}

const apiDatasets = consistent(
  apart(record({ ...parents, ...quotas, ...owners, datasetPermissionsAcls }, datasetSection(overApi))),
  function* (value) {
    yield* refusedProperties(value);
    if (value.datasetPermissionsMode !== undefined && (Number.parseInt(value.datasetPermissionsMode, 8) & 0o7000) !== 0)
      yield [["datasetPermissionsMode"], "must be 0000 to 0777: the API sets no set-id and sticky bits"];
    for (const [at, line] of (value.datasetPermissionsAcls ?? []).entries()) {
      const fault = aclFault(line.trim().split(/\s+/));
      if (fault !== undefined) yield [["datasetPermissionsAcls", at], fault];
    }
  },
);
const apiVolumes = consistent(apart(record({ ...parents, ...zvols }, zvolSection(overApi))), function* (value) {
  const refused = refusedValue("compression", value.zvolCompression);
  if (refused !== undefined) yield [["zvolCompression"], refused];
  yield* refusedProperties(value);
});

const apiOnly = {
  ignored: {
    sshConnection: "this driver uses only the API; freenas-nfs, freenas-smb, freenas-iscsi and freenas-nvmeof use SSH",
  },
};

/** The sections of each driver by its name, without "freenas-" or "truenas-". */
export const schemas = {
  nfs: record({ ...ssh, zfs: sshDatasets, nfs }),
  smb: record({ ...ssh, zfs: sshDatasets, smb }),
  iscsi: record({ ...ssh, zfs: sshVolumes, iscsi }),
  nvmeof: record({ ...ssh, zfs: sshVolumes, nvmeof }),
  "api-nfs": record({ ...api, zfs: apiDatasets, nfs }, apiOnly),
  "api-smb": record({ ...api, zfs: apiDatasets, smb }, apiOnly),
  "api-iscsi": record({ ...api, zfs: apiVolumes, iscsi }, apiOnly),
  "api-nvmeof": record({ ...api, zfs: apiVolumes, nvmeof }, apiOnly),
};
