import { describe, expect, test } from "bun:test";
import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { CreateVolumeRequestSchema, NodeStageVolumeRequestSchema } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { withoutSecrets } from "../../lib/csi/redact.ts";

const shown = <D extends DescMessage>(type: D, request: MessageInitShape<D>): object =>
  withoutSecrets(type, create(type, request));

describe("a request in the log", () => {
  test("hides its secrets, keys included, and parameters that are not known to be harmless", () => {
    const request = {
      name: "pvc-1",
      secrets: { password: "hunter2" },
      parameters: { connection: "one", token: "hunter2", "csi.storage.k8s.io/pvc/name": "claim" },
      mutableParameters: { token: "hunter2" },
    };
    expect(shown(CreateVolumeRequestSchema, request)).toEqual({
      name: "pvc-1",
      secrets: "***",
      parameters: { connection: "one", token: "***", "csi.storage.k8s.io/pvc/name": "claim" },
      mutable_parameters: { token: "***" },
      volume_capabilities: [],
    });
  });

  test("hides mount options and contexts, which may carry passwords, however deep they lie", () => {
    const mount = { fsType: "cifs", mountFlags: ["username=a", "password=hunter2"] };
    const request = {
      volumeId: "v:one/a",
      volumeCapability: { accessType: { case: "mount" as const, value: mount } },
      volumeContext: { server: "nas", key: "hunter2" },
      publishContext: { key: "hunter2" },
      secrets: { key: "hunter2" },
    };
    expect(shown(NodeStageVolumeRequestSchema, request)).toEqual({
      volume_id: "v:one/a",
      volume_capability: { mount: { fs_type: "cifs", mount_flags: ["***", "***"] } },
      volume_context: { server: "nas", key: "***" },
      publish_context: { key: "***" },
      secrets: "***",
    });
  });

  test("shows only names among the keys that Kubernetes adds: service account tokens and unknown keys are hidden", () => {
    const k8s = "csi.storage.k8s.io/";
    const names = ["pod.name", "pod.namespace", "pod.uid", "serviceAccount.name", "ephemeral", "fstype", "pv/name"];
    const hidden = ["serviceAccount.tokens", "serviceaccount.tokens", "pod.key", "tokens/name/x", "secret-token"];
    const volumeContext = Object.fromEntries([...names, ...hidden].map(key => [`${k8s}${key}`, "hunter2"]));
    const seen = shown(NodeStageVolumeRequestSchema, { volumeContext }) as { volume_context: Record<string, string> };
    for (const key of names) expect([key, seen.volume_context[`${k8s}${key}`]]).toEqual([key, "hunter2"]);
    for (const key of hidden) expect([key, seen.volume_context[`${k8s}${key}`]]).toEqual([key, "***"]);
  });
});
