import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import { csi_secret } from "./gen/csi/v1/csi_pb.ts";

/**
 * Fields that CSI does not mark as secret, but which may carry passwords (SMB mount options, volume contexts,
 * parameters).
 */
const sensitive: ReadonlySet<string> = new Set([
  "mount_flags",
  "volume_context",
  "publish_context",
  "parameters",
  "mutable_parameters",
]);
const harmless = /^(?:connection|node_attach_driver|provisioner_driver|path|share|server)$/;

/**
 * Keys added by Kubernetes and its sidecars that hold names (kubelet, podInfoOnMount; external-provisioner and
 * external-snapshotter, --extra-create-metadata; the names of secrets in classes). All other keys are hidden:
 * `serviceAccount.tokens` holds credentials.
 */
const ofKubernetes =
  /^csi\.storage\.k8s\.io\/(?:fstype|ephemeral|pod\.(?:name|namespace|uid)|serviceAccount\.name|(?:pvc|pv|volumesnapshot|volumesnapshotcontent|volumegroupsnapshot|volumegroupsnapshotcontent)\/(?:name|namespace)|(?:[a-z-]+-)?secret-(?:name|namespace))$/;

const hidden = "***";

/** A plain copy of a message for the log; fields marked `csi_secret` and values that may hold passwords are hidden. */
export function withoutSecrets(type: DescMessage, message: Message): object {
  const values = message as unknown as Readonly<Record<string, unknown>>;
  const shown: Record<string, unknown> = {};
  for (const field of type.fields) {
    const value = field.oneof ? oneofValue(field, values) : values[field.localName];
    if (value === undefined || value === "" || value === 0 || value === 0n || value === false) continue;
    shown[field.name] = isSecret(field) ? hidden : show(field, value);
  }
  return shown;
}

const isSecret = (field: DescField): boolean => hasOption(field, csi_secret) && getOption(field, csi_secret);

function oneofValue(field: DescField, values: Readonly<Record<string, unknown>>): unknown {
  const chosen =
    field.oneof && (values[field.oneof.localName] as { readonly case?: string; readonly value?: unknown } | undefined);
  return chosen?.case === field.localName ? chosen.value : undefined;
}

function show(field: DescField, value: unknown): unknown {
  if (field.fieldKind === "map") return showMap(field, value as Readonly<Record<string, unknown>>);
  if (field.fieldKind === "list") {
    const list = value as readonly unknown[];
    if (sensitive.has(field.name)) return list.map(() => hidden);
    return field.listKind === "message" ? list.map(item => withoutSecrets(field.message, item as Message)) : list;
  }
  return field.fieldKind === "message" ? showMessage(field.message, value) : value;
}

/** Wrapper messages such as google.protobuf.BoolValue are plain values in generated code. */
const showMessage = (type: DescMessage, value: unknown): unknown =>
  typeof value === "object" && value !== null ? withoutSecrets(type, value as Message) : value;

function showMap(field: DescField, map: Readonly<Record<string, unknown>>): object {
  const all = !sensitive.has(field.name);
  return Object.fromEntries(
    Object.entries(map).map(([key, value]) => [
      key,
      all || harmless.test(key) || ofKubernetes.test(key) ? value : hidden,
    ]),
  );
}
