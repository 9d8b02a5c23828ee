import { expect, test } from "bun:test";
import {
  ControllerServiceCapability_RPC_Type as C,
  GroupController,
  Identity,
  NodeServiceCapability_RPC_Type as N,
  PluginCapability_Service_Type as P,
} from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { build } from "../../scripts/build.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { World } from "./world.ts";

const controller15 = [
  ...[C.CREATE_DELETE_VOLUME, C.LIST_VOLUMES, C.GET_CAPACITY, C.CREATE_DELETE_SNAPSHOT, C.LIST_SNAPSHOTS],
  ...[C.CLONE_VOLUME, C.EXPAND_VOLUME, C.GET_VOLUME, C.SINGLE_NODE_MULTI_WRITER],
];
const node15 = [N.STAGE_UNSTAGE_VOLUME, N.GET_VOLUME_STATS, N.EXPAND_VOLUME, N.SINGLE_NODE_MULTI_WRITER];
const plugin15 = [P.CONTROLLER_SERVICE, P.VOLUME_ACCESSIBILITY_CONSTRAINTS];

const [controller19, controller112] = [
  [...controller15, C.MODIFY_VOLUME],
  [...controller15, C.MODIFY_VOLUME, C.GET_SNAPSHOT],
];
const plugin18 = [...plugin15, P.GROUP_CONTROLLER_SERVICE];
const plugin110 = [...plugin18, P.SNAPSHOT_METADATA_SERVICE];

/** What is advertised at each version, here with connections that neither modify volumes nor take group snapshots. */
const versions: readonly (readonly [string, readonly C[], readonly N[], readonly P[]])[] = [
  ["1.5.0", [...controller15, C.VOLUME_CONDITION], [...node15, N.VOLUME_CONDITION], plugin15],
  ["1.9.0", [...controller19, C.VOLUME_CONDITION], [...node15, N.VOLUME_CONDITION], plugin18],
  ["1.12.0", [...controller112, C.VOLUME_CONDITION], [...node15, N.VOLUME_CONDITION], plugin110],
  [
    "1.13.0",
    [...controller112, C.GET_VOLUME_HEALTH, C.LIST_VOLUME_HEALTH],
    [...node15, N.GET_VOLUME_HEALTH, N.GET_STORAGE_HEALTH],
    [...plugin110, P.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS],
  ],
];

const sorted = (types: Iterable<number | undefined>): readonly (number | undefined)[] =>
  [...types].sort((a, b) => (a ?? 0) - (b ?? 0));

test.each(versions)("--csi-version %s advertises what that version has and nothing else", async (version, c, n, p) => {
  const sandbox = await makeSandbox("zone");
  const flags = [`--csi-version=${version}`];
  const world = await World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags }));
  try {
    const ofController = await world.controller("controllerGetCapabilities", {});
    const ofNode = await world.node("nodeGetCapabilities", {});
    const ofPlugin = await world.client.call(Identity.method.getPluginCapabilities, {});
    const ofGroups = await world.client.call(GroupController.method.groupControllerGetCapabilities, {});
    expect(sorted(ofController.capabilities.map(({ type }) => type.value?.type))).toEqual(sorted(c));
    expect(sorted(ofNode.capabilities.map(({ type }) => type.value?.type))).toEqual(sorted(n));
    const services = ofPlugin.capabilities.flatMap(({ type }) => (type.case === "service" ? [type.value.type] : []));
    expect(sorted(services)).toEqual(sorted(p));
    expect(ofGroups.capabilities).toHaveLength(p.includes(P.GROUP_CONTROLLER_SERVICE) ? 1 : 0);
    await world.create("pvc-1");
    const { entries } = await world.controller("listVolumes", {});
    const conditions = entries.map(({ status }) => status?.volumeCondition?.abnormal);
    expect(conditions).toEqual([version === "1.13.0" ? undefined : false]);
  } finally {
    await world.end();
  }
});
