import {
  ControllerServiceCapability_RPC_Type as C,
  NodeServiceCapability_RPC_Type as N,
  PluginCapability_Service_Type as P,
} from "./gen/csi/v1/csi_pb.ts";

/** A CSI version as [major, minor]. */
export type Version = readonly [number, number];

/** The controller's capabilities, with the CSI version that introduced each and, if any, the one that removed it. */
const controller: readonly (readonly [C, Version, before?: Version])[] = [
  [C.CREATE_DELETE_VOLUME, [0, 1]],
  [C.LIST_VOLUMES, [0, 1]],
  [C.GET_CAPACITY, [0, 1]],
  [C.CREATE_DELETE_SNAPSHOT, [0, 3]],
  [C.LIST_SNAPSHOTS, [0, 3]],
  [C.CLONE_VOLUME, [1, 0]],
  [C.EXPAND_VOLUME, [1, 1]],
  [C.GET_VOLUME, [1, 3]],
  // CSI 1.13 replaced it with GET_VOLUME_HEALTH.
  [C.VOLUME_CONDITION, [1, 3], [1, 13]],
  [C.SINGLE_NODE_MULTI_WRITER, [1, 5]],
  [C.MODIFY_VOLUME, [1, 9]],
  [C.GET_SNAPSHOT, [1, 12]],
  [C.GET_VOLUME_HEALTH, [1, 13]],
  [C.LIST_VOLUME_HEALTH, [1, 13]],
];

const services: readonly (readonly [P, Version])[] = [
  [P.CONTROLLER_SERVICE, [0, 1]],
  [P.GROUP_CONTROLLER_SERVICE, [1, 8]],
  [P.SNAPSHOT_METADATA_SERVICE, [1, 10]],
];

/** Plugin capabilities that apply if nodes and volumes report topology. */
const placed: readonly (readonly [P, Version])[] = [
  [P.VOLUME_ACCESSIBILITY_CONSTRAINTS, [0, 2]],
  [P.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, [1, 13]],
];

const node: readonly (readonly [N, Version, before?: Version])[] = [
  [N.STAGE_UNSTAGE_VOLUME, [0, 1]],
  [N.GET_VOLUME_STATS, [1, 0]],
  [N.EXPAND_VOLUME, [1, 1]],
  // CSI 1.13 replaced it with GET_VOLUME_HEALTH.
  [N.VOLUME_CONDITION, [1, 3], [1, 13]],
  [N.SINGLE_NODE_MULTI_WRITER, [1, 5]],
  [N.GET_VOLUME_HEALTH, [1, 13]],
  [N.GET_STORAGE_HEALTH, [1, 13]],
];

const reaches = ([major, minor]: Version, first: Version): boolean =>
  first[0] < major || (first[0] === major && first[1] <= minor);

/** The entries that the version has: introduced by then and not yet removed. */
const since = <T>(list: readonly (readonly [T, Version, Version?])[], version: Version): readonly T[] =>
  list
    .filter(([, first, before]) => reaches(version, first) && !(before && reaches(version, before)))
    .map(([type]) => type);

/**
 * The controller capabilities advertised for this version. They do not follow the connections: sidecars read them once,
 * and connections come and go. One that lacks an ability refuses the call.
 */
export const controllerCapabilities = (version: Version): readonly C[] => since(controller, version);

/** Whether the controller's answers hold volume conditions in this version. */
export const hasVolumeCondition = (version: Version): boolean =>
  since(controller, version).includes(C.VOLUME_CONDITION);

/** Whether this version has snapshots of several volumes. */
export const hasGroupSnapshots = (version: Version): boolean =>
  since(services, version).includes(P.GROUP_CONTROLLER_SERVICE);

/** The plugin capabilities advertised for this version. `topology`: nodes and volumes report it. */
export const pluginCapabilities = (version: Version, topology: boolean): readonly P[] =>
  since(topology ? [...services, ...placed] : services, version);

/** The node capabilities advertised for this version. */
export const nodeCapabilities = (version: Version): readonly N[] => since(node, version);
